"""Loading: defaults, requirements, and every problem at once."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from tayho.config import Bind, load_settings
from tayho.config.variable import Need
from tayho.config.variables import VARIABLES
from tayho.kernel.roles import ROLES
from tests.config.environments import (
    CHAIN,
    ENGINE,
    KEYS,
    LIVE,
    PROTOCOL,
    SIGNING,
    STORES,
    WATCHING,
    accepted,
    no_file,
    refused,
    refused_names,
)

TABLE_OF_THE_SPECIFICATION = {
    "DATABASE_POOL_SIZE": "10",
    "QUEUE_PREFIX": "{tayho}",
    "QUEUE_CONCURRENCY": "16",
    "QUEUE_LOCK_SECONDS": "30",
    "QUEUE_RECONCILE_SECONDS": "60",
    "JOB_MAX_ATTEMPTS": "8",
    "JOB_RETENTION_DAYS": "30",
    "OUTBOX_POLL_MILLISECONDS": "250",
    "RPC_CIRCUIT_COOLDOWN_MILLISECONDS": "10000",
    "TX_RECONCILE_SECONDS": "5",
    "TX_CONFIRMATIONS": "12",
    "TX_REORG_LOOKBACK_BLOCKS": "64",
    "TX_STUCK_SECONDS": "90",
    "TX_FEE_BUMP_BASIS_POINTS": "1250",
    "TX_MAX_REPLACEMENTS": "8",
    "SIGNER_LANE_DEPTH": "16",
    "BATCH_WINDOW_MILLISECONDS": "100",
    "BATCH_MAX_ITEMS": "64",
    "BATCH_GAS_BUFFER_BASIS_POINTS": "2000",
    "BATCH_BLOCK_SHARE_BASIS_POINTS": "2500",
    "HTTP_BIND": "127.0.0.1:8080",
    "DRAIN_SECONDS": "60",
}
WITHOUT_DEFAULT = {
    "DATABASE_URL",
    "REDIS_URL",
    "RPC_URL",
    "RPC_READ_URLS",
    "CHAIN_ID",
    "ENVIRONMENT",
    "SIGNER_KEYS",
    "TX_JOURNAL_KEYS",
    "TX_JOURNAL_ACTIVE_KEY_ID",
    "TX_MAX_FEE_PER_GAS_WEI",
    "BATCH_MAX_GAS",
    "INSTANCE_ID",
    "LOG_FORMAT",
}


BEYOND_IT = {
    "INFRASTRUCTURE_REQUIRED",
    "EVIDENCE_RETENTION_DAYS",
    "TX_SEAL_RETENTION_DAYS",
    "SCAN_SECONDS",
    "PROTOCOL_ADDRESS",
    "PROTOCOL_MARKETS",
    "PROTOCOL_TREASURY",
    "PROTOCOL_REVENUE_EPOCH_SECONDS",
    "BATCH_EXECUTOR_ADDRESS",
    "ENGINE_BIND",
    "ENGINE_IDENTITY_KEY",
    "ENGINE_TRUSTED_PROXIES",
    "ENGINE_SUBMISSIONS_PER_MINUTE",
    "ENGINE_STATUSES_PER_MINUTE",
}


def test_every_variable_of_the_specification_is_there_with_its_default():
    """Goal: the table is the specification's. Method: the overview's names and defaults, written out once more here."""
    defaults = {variable.name: variable.default for variable in VARIABLES}
    assert defaults.keys() == TABLE_OF_THE_SPECIFICATION.keys() | WITHOUT_DEFAULT | BEYOND_IT
    for name, default in TABLE_OF_THE_SPECIFICATION.items():
        assert defaults[name] == default, name


@pytest.mark.parametrize("variable", VARIABLES, ids=lambda variable: variable.name)
def test_a_default_is_accepted_by_its_own_variable(variable):
    """Goal: no default is refused once it is written out. Method: read each through its kind."""
    if variable.default is not None:
        assert variable.kind.shown(variable.kind.read(variable.default)) == variable.default


def test_settings_carry_what_was_given():
    """Goal: each text arrives under its own name. Method: a full environment of values unlike the defaults."""
    given = {
        "DATABASE_POOL_SIZE": "11",
        "QUEUE_PREFIX": "other",
        "QUEUE_CONCURRENCY": "17",
        "QUEUE_LOCK_SECONDS": "31",
        "QUEUE_RECONCILE_SECONDS": "61",
        "JOB_MAX_ATTEMPTS": "9",
        "JOB_RETENTION_DAYS": "31",
        "EVIDENCE_RETENTION_DAYS": "91",
        "TX_SEAL_RETENTION_DAYS": "31",
        "OUTBOX_POLL_MILLISECONDS": "251",
        "RPC_READ_URLS": "http://one:1\n http://two:2,http://three:3",
        "RPC_CIRCUIT_COOLDOWN_MILLISECONDS": "10001",
        "TX_RECONCILE_SECONDS": "6",
        "TX_CONFIRMATIONS": "13",
        "TX_REORG_LOOKBACK_BLOCKS": "65",
        "TX_STUCK_SECONDS": "91",
        "TX_FEE_BUMP_BASIS_POINTS": "1251",
        "TX_MAX_REPLACEMENTS": "7",
        "SIGNER_LANE_DEPTH": "15",
        "BATCH_WINDOW_MILLISECONDS": "101",
        "BATCH_MAX_ITEMS": "63",
        "BATCH_GAS_BUFFER_BASIS_POINTS": "2001",
        "BATCH_BLOCK_SHARE_BASIS_POINTS": "2501",
        "BATCH_MAX_GAS": "16777216",
        "SCAN_SECONDS": "6",
        "PROTOCOL_ADDRESS": "0x7777777777777777777777777777777777777777",
        "PROTOCOL_MARKETS": PROTOCOL["PROTOCOL_MARKETS"],
        "PROTOCOL_TREASURY": "0x8888888888888888888888888888888888888888",
        "PROTOCOL_REVENUE_EPOCH_SECONDS": "86401",
        "BATCH_EXECUTOR_ADDRESS": "0x8888888888888888888888888888888888888888",
        "HTTP_BIND": "[::1]:0",
        "ENGINE_BIND": "0.0.0.0:81",
        "ENGINE_IDENTITY_KEY": ENGINE["ENGINE_IDENTITY_KEY"],
        "ENGINE_TRUSTED_PROXIES": "10.0.0.0/8 fd00::1, 10.0.0.0/8",
        "ENGINE_SUBMISSIONS_PER_MINUTE": "121",
        "ENGINE_STATUSES_PER_MINUTE": "1201",
        "INSTANCE_ID": "relayer-0",
        "DRAIN_SECONDS": "59",
        "LOG_FORMAT": "plain",
    }
    settings = accepted({**SIGNING, **given}, "relayer", "watcher", "relayer")

    assert (settings.roles, settings.signing_role) == (("relayer", "watcher"), "relayer")
    assert not settings.is_local_mode
    assert not settings.is_live
    assert settings.database_url == STORES["DATABASE_URL"]
    assert settings.redis_url == STORES["REDIS_URL"]
    assert settings.rpc_url == CHAIN["RPC_URL"]
    assert settings.rpc_read_urls == ("http://one:1", "http://two:2", "http://three:3")
    assert (settings.chain_id, settings.environment) == (1, "staging")
    assert settings.signer_keys is not None
    assert len(settings.signer_keys.addresses) == 2
    assert settings.journal_keys is not None
    assert settings.journal_keys.active_id == "2026"
    assert settings.http_bind == Bind("::1", 0)
    assert settings.engine_bind == Bind("0.0.0.0", 81)  # noqa: S104 - a setting, and nothing listens
    assert settings.engine_trusted_proxies == (ip_network("10.0.0.0/8"), ip_network("fd00::1/128"))
    assert settings.engine_identity is not None
    assert settings.tx_max_fee_per_gas_wei == 500 * 10**9
    assert list(settings.protocol_markets) == ["ETH-USD"]
    plain = set(given) - {"RPC_READ_URLS", "HTTP_BIND", "ENGINE_BIND", "ENGINE_IDENTITY_KEY", "ENGINE_TRUSTED_PROXIES"}
    plain -= {"PROTOCOL_MARKETS"}
    for name in plain:
        assert str(getattr(settings, name.lower())) == given[name], name
    assert {name: source for name, _, source in settings.shown() if source != "environment"} == {
        "INFRASTRUCTURE_REQUIRED": "default"
    }
    assert settings.warnings == ()


def test_read_urls_are_the_write_url_where_none_are_given():
    """Goal: one endpoint is enough to begin with. Method: leave RPC_READ_URLS out."""
    settings = accepted(WATCHING, "watcher")
    assert settings.rpc_read_urls == (settings.rpc_url,)
    assert ("RPC_READ_URLS", "https://rpc.example.com/…", "RPC_URL") in settings.shown()


def test_nothing_at_all_is_local_mode():
    """Goal: a first run needs no environment. Method: an empty one, for a role that holds no key."""
    settings = accepted({}, "watcher")
    assert settings.is_local_mode
    assert (settings.database_url, settings.redis_url, settings.rpc_url) == (None, None, None)
    assert settings.rpc_read_urls == ()
    assert (settings.chain_id, settings.environment) == (31_337, "local")


def test_two_processes_have_two_instance_ids():
    """Goal: replicas that nobody named are told apart. Method: load twice."""
    assert accepted({}).instance_id != accepted({}).instance_id


def test_local_mode_can_be_forbidden():
    """Goal: a production process never runs on throw-away stores. Method: INFRASTRUCTURE_REQUIRED, and live."""
    for environ in ({"INFRASTRUCTURE_REQUIRED": "true"}, {"ENVIRONMENT": "live"}):
        lines = refused(environ, "watcher")
        assert [line.partition(":")[0] for line in lines] == ["DATABASE_URL", "REDIS_URL"]


@pytest.mark.parametrize(("given", "missing"), [("DATABASE_URL", "REDIS_URL"), ("REDIS_URL", "DATABASE_URL")])
def test_one_url_of_the_pair_is_refused(given, missing):
    """Goal: half an infrastructure is no local mode. Method: each URL alone."""
    [line] = refused({**CHAIN, given: STORES[given]}, "watcher")
    assert line == f"{missing}: expected a URL, because {given} is set and the two are inseparable; found nothing"


def test_a_malformed_url_is_not_taken_for_none():
    """Goal: a slip in both URLs does not start local mode. Method: two texts that are no URLs, then two empty ones."""
    for database, queue in (("nonsense", " "), ("", "")):
        names = refused_names({"DATABASE_URL": database, "REDIS_URL": queue}, ["watcher"])
        assert names == ["DATABASE_URL", "REDIS_URL", "RPC_URL", "CHAIN_ID", "ENVIRONMENT"]


@pytest.mark.parametrize("name", sorted(variable.name for variable in VARIABLES))
def test_an_empty_text_is_refused_and_not_taken_for_unset(name):
    """Goal: an empty secret of an orchestrator is noticed. Method: each variable set to nothing."""
    lines = refused({**SIGNING, "BATCH_MAX_GAS": "1000000", name: ""}, "relayer")
    assert [line for line in lines if line.startswith(f"{name}: ") and "found an empty text" in line]


def test_all_problems_come_together_in_the_order_of_the_table():
    """Goal: one run shows everything to mend. Method: an environment wrong in every way at once."""
    names = refused_names(
        {
            "DATABASE_URL": "mysql://db",
            "QUEUE_CONCURRENCY": "0",
            "CHAIN_ID": "0x1",
            "SIGNER_KEYS": "[]",
            "TX_FEE_BUMP_BASIS_POINTS": "999",
            "HTTP_BIND": "8080",
        },
        ["automaton", "relayer", "payouts"],
    )
    assert names == [
        "ROLE",
        "ROLE",
        "DATABASE_URL",
        "REDIS_URL",
        "QUEUE_CONCURRENCY",
        "RPC_URL",
        "CHAIN_ID",
        "ENVIRONMENT",
        "SIGNER_KEYS",
        "TX_JOURNAL_KEYS",
        "TX_JOURNAL_ACTIVE_KEY_ID",
        "TX_FEE_BUMP_BASIS_POINTS",
        "TX_MAX_FEE_PER_GAS_WEI",
        "BATCH_MAX_GAS",
        "HTTP_BIND",
    ]


@pytest.mark.parametrize("role", [name for name, role in ROLES.items() if role.signs])
def test_a_role_that_signs_needs_its_keys_and_its_ceiling(role):
    """Goal: no signer starts without keys or without a fee ceiling. Method: take them away, for every such role."""
    needed = {*KEYS, "BATCH_MAX_GAS"} if role == "relayer" else {*KEYS}
    assert set(refused_names(WATCHING, [role])) == needed


@pytest.mark.parametrize("role", [name for name, role in ROLES.items() if not role.signs and name != "engine"])
def test_a_role_that_does_not_sign_looks_at_no_key(role):
    """Goal: a keyless process holds no key, even when handed some. Method: malformed keys, which are not even read."""
    settings = accepted({**WATCHING, "SIGNER_KEYS": "broken", "TX_JOURNAL_KEYS": "broken"}, role)
    assert (settings.signing_role, settings.signer_keys, settings.journal_keys) == (None, None, None)
    assert ("SIGNER_KEYS", "(not looked at)", "environment") in settings.shown()
    assert len([warning for warning in settings.warnings if "no role here signs" in warning]) == 2


def test_the_engine_is_handed_no_key_and_stands_beside_none_on_a_live_chain():
    """Goal: what speaks with strangers holds no key (INT-1). Method: hand it keys, which are not read; run it beside a
    role that signs, on a live chain and elsewhere; take away what it needs."""
    watching = {**WATCHING, **ENGINE}
    assert accepted(watching, "engine").signing_role is None
    lines = refused({**watching, "SIGNER_KEYS": "broken", "TX_JOURNAL_KEYS": "broken"}, "engine")
    assert [line for line in lines if line.startswith("SIGNER_KEYS: ")] == [
        "SIGNER_KEYS: expected nothing, because the role engine holds no key; found a text, not looked at"
    ]
    assert [line for line in lines if line.startswith("TX_JOURNAL_KEYS: expected nothing, because ")]
    assert accepted({**SIGNING, **ENGINE}, "engine", "payouts").signing_role == "payouts"
    assert refused(LIVE, "engine", "payouts") == [
        "ROLE: expected engine without a role that signs: what speaks with strangers holds no key on a live chain; "
        "found engine beside payouts"
    ]
    assert refused_names(WATCHING, ["engine"]) == ["PROTOCOL_ADDRESS", "ENGINE_IDENTITY_KEY"]


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("PROTOCOL_ADDRESS", ["0x1", "7" * 40, "0x" + "g" * 40, "0xAbcdefabcdefabcdefabcdefabcdefabcdefabcd"]),
        ("ENGINE_TRUSTED_PROXIES", ["10.0.0.1/8", "proxy", "10.0.0.0/33", ",", "::/129", "10.0.0.1;10.0.0.2"]),
        ("ENGINE_IDENTITY_KEY", ["x", "0x" + "0" * 64, "0x" + "1" * 63, "1" * 64]),
    ],
)
def test_what_the_engine_cannot_use_is_refused(name, texts):
    """Goal: a slip is told at the start. Method: texts that look right."""
    for text in texts:
        [line] = refused({**WATCHING, **ENGINE, name: text}, "engine")
        assert line.startswith(f"{name}: expected "), text


def test_a_check_without_a_role_reads_what_is_there():
    """Goal: `config check` tells about keys too. Method: no role, keys right, then wrong, then without an active id."""
    settings = accepted(SIGNING)
    assert settings.signing_role is None
    assert settings.signer_keys is not None
    assert refused_names({**SIGNING, "SIGNER_KEYS": "[]"}, []) == ["SIGNER_KEYS"]
    without_id = {name: text for name, text in SIGNING.items() if name != "TX_JOURNAL_ACTIVE_KEY_ID"}
    assert refused_names(without_id, []) == ["TX_JOURNAL_ACTIVE_KEY_ID"]
    assert refused_names({**without_id, "TX_JOURNAL_KEYS": '{"a": "0x12"}'}, ["payouts"]) == [
        "TX_JOURNAL_KEYS",
        "TX_JOURNAL_ACTIVE_KEY_ID",
    ]


def test_keys_that_were_read_are_wiped_when_the_rest_is_refused(monkeypatch):
    """Goal: a refused configuration leaves no key behind. Method: look at the rings that custody made."""
    from tayho.config import loading
    from tayho.custody import module

    rings = []
    for name in ("parse_signer_keys", "parse_journal_keys"):
        parse = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *args, parse=parse: rings.append(parse(*args)) or rings[-1])
    with pytest.raises(loading.ConfigurationRefused):
        load_settings({**SIGNING, "DRAIN_SECONDS": "0"}, ["payouts"], read_file=no_file)
    assert len(rings) == 2
    assert all(material.wiped for ring in rings for material in ring.keys.values())


def test_a_live_configuration_without_a_warning_exists():
    """Goal: the warnings do not cry wolf. Method: a live environment as it should be."""
    settings = accepted(LIVE, "payouts")
    assert settings.is_live
    assert settings.warnings == ()


def test_needs_are_told_in_words():
    """Goal: the README and the refusals say when a variable is required. Method: each need has a sentence."""
    assert all(need.value.startswith("required ") for need in Need)
