"""Rules between variables, and the ranges with their reasons."""

from __future__ import annotations

import pytest

from rpc.hosts import host_of, repeated_hosts
from tayho.config.variables import VARIABLES
from tests.config.environments import KEY_HEX, KEYS, LIVE, SIGNING, WATCHING, accepted, refused

RANGES = [variable for variable in VARIABLES if variable.kind.expected.startswith("a whole number")]


@pytest.mark.parametrize("variable", RANGES, ids=lambda variable: variable.name)
def test_a_number_outside_its_range_is_refused_with_the_reason(variable):
    """Goal: no end of a range is off by one or without a reason. Method: both ends, and one step beyond each."""
    words = variable.kind.expected.split()
    least, most = int(words[-3]), int(words[-1])
    assert variable.kind.read(str(least)) == least
    assert variable.kind.read(str(most)) == most
    for beyond in (least - 1, most + 1):
        if beyond < 0:
            continue
        lines = refused({**SIGNING, variable.name: str(beyond)}, "payouts")
        [line] = [line for line in lines if line.startswith(f"{variable.name}: expected a whole number")]
        assert ", because " in line
        assert line.endswith(f"found '{beyond}'")


@pytest.mark.parametrize("text", ["-1", "+1", "1.0", "1e3", "0x10", "007", "1_000", "١٢", "10 s", "9" * 79])
def test_what_is_no_plain_whole_number_is_refused(text):
    """Goal: nothing is guessed. Method: what int() or a person might take for a number."""
    [line] = refused({**WATCHING, "QUEUE_CONCURRENCY": text}, "watcher")
    assert line.startswith("QUEUE_CONCURRENCY: expected a whole number from 1 to 1000; found ")


@pytest.mark.parametrize("scheme", ["redis+cluster", "rediss+cluster"])
def test_a_cluster_needs_a_prefix_in_braces(scheme):
    """Goal: no queue is scattered over the nodes. Method: a cluster with a bare prefix, the default, and one server."""
    environ = {**WATCHING, "REDIS_URL": f"{scheme}://a,b:7000", "QUEUE_PREFIX": "bull"}
    assert refused(environ, "watcher") == [
        "QUEUE_PREFIX: expected a prefix in braces, such as {bull}, because REDIS_URL names a cluster; found bull"
    ]
    accepted({**environ, "QUEUE_PREFIX": "{bull}"}, "watcher")
    accepted({name: text for name, text in environ.items() if name != "QUEUE_PREFIX"}, "watcher")
    accepted({**environ, "REDIS_URL": "redis://a"}, "watcher")


def test_the_lock_outlasts_two_polls():
    """Goal: the specification's example. Method: a lock of just under and of just twice the poll."""
    environ = {**WATCHING, "QUEUE_LOCK_SECONDS": "10", "OUTBOX_POLL_MILLISECONDS": "5001"}
    [line] = refused(environ, "watcher")
    assert line.startswith("QUEUE_LOCK_SECONDS: expected at least twice OUTBOX_POLL_MILLISECONDS (5001 ms), because ")
    accepted({**environ, "OUTBOX_POLL_MILLISECONDS": "5000"}, "watcher")


@pytest.mark.parametrize(
    ("larger", "smaller"),
    [
        ("QUEUE_RECONCILE_SECONDS", "QUEUE_LOCK_SECONDS"),
        ("TX_REORG_LOOKBACK_BLOCKS", "TX_CONFIRMATIONS"),
        ("TX_STUCK_SECONDS", "TX_RECONCILE_SECONDS"),
    ],
)
def test_pairs_keep_their_order(larger, smaller):
    """Goal: numbers that are sane alone are refused where they contradict. Method: one below, then equal."""
    [line] = refused({**WATCHING, larger: "20", smaller: "21"}, "watcher")
    assert line.startswith(f"{larger}: expected at least {smaller} (21), because ")
    accepted({**WATCHING, larger: "21", smaller: "21"}, "watcher")


def test_zero_confirmations_are_for_test_chains():
    """Goal: no live receipt is final at once. Method: zero, live and elsewhere."""
    [line] = refused({**LIVE, "TX_CONFIRMATIONS": "0"}, "payouts")
    assert line.startswith("TX_CONFIRMATIONS: expected at least 1 on a live chain")
    accepted({**SIGNING, "TX_CONFIRMATIONS": "0"}, "payouts")


def test_a_live_signer_needs_three_hosts():
    """Goal: RPC-6. Method: the default, two hosts, three hosts, and a role without keys."""
    only_one = {name: text for name, text in LIVE.items() if name != "RPC_READ_URLS"}
    for environ in (only_one, {**LIVE, "RPC_READ_URLS": "https://a.example.com https://b.example.com"}):
        [line] = refused(environ, "payouts")
        assert line.startswith("RPC_READ_URLS: expected 3 distinct hosts or more")
    accepted(LIVE, "payouts")
    accepted(only_one, "watcher")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://A.example.COM", "https://a.example.com"),
        ("https://a.example.com:443", "https://a.example.com:8545/v2/abcdefghij"),
        ("https://a.example.com.", "https://a.example.com"),
        ("https://user:pass@a.example.com", "https://a.example.com"),
        ("http://a.example.com", "https://a.example.com"),
        ("http://10.0.0.1", "http://0x0a000001"),
        ("http://10.0.0.1", "http://10.1"),
        ("http://10.0.0.1", "http://167772161"),
        ("http://[::ffff:10.0.0.1]", "http://10.0.0.1"),
        ("http://[2001:db8::1]", "http://[2001:0db8:0:0::1]"),
        ("http://localhost:8545", "http://127.0.0.1:8546"),
        ("http://127.0.0.1", "http://127.3.2.1"),
        ("http://[::1]", "http://node.localhost"),
    ],
)
def test_a_second_spelling_of_a_host_is_no_second_voter(one, other):
    """Goal: RPC-6's duplicates. Method: each spelling beside another, on a live chain."""
    assert host_of(one) == host_of(other)
    lines = refused({**LIVE, "RPC_READ_URLS": f"{one},https://b.example.com,{other}"}, "payouts")
    assert f"found URL 3 on {host_of(one)}, the host of URL 1" in lines[0]
    assert lines[1].endswith("found 2")


def test_distinct_hosts_stay_distinct():
    """Goal: the comparison does not merge neighbours. Method: names and addresses that only look alike."""
    urls = ["http://a.example.com", "http://b.example.com", "http://example.com", "http://10.0.0.1", "http://10.0.0.2"]
    assert repeated_hosts(urls) == []


@pytest.mark.parametrize(
    ("changed", "warning"),
    [
        ({"ENVIRONMENT": "production"}, "apply only under the name live"),
        ({"RPC_READ_URLS": "http://a.example.com"}, "RPC_READ_URLS names 1 host of 3: one that lies is believed"),
        (
            {"RPC_READ_URLS": "http://a.example.com http://b.example.com"},
            "2 hosts of 3: one that is down or lies stops",
        ),
        ({**LIVE, "SIGNER_KEYS": f'["0x{KEY_HEX}"]'}, "holds 1 signers"),
        ({**LIVE, "TX_MAX_FEE_PER_GAS_WEI": "500"}, "500 wei"),
        ({"TX_CONFIRMATION": "3"}, "TX_CONFIRMATION is not read: did you mean TX_CONFIRMATIONS?"),
        ({"tx_confirmations": "3"}, "tx_confirmations is not read: did you mean TX_CONFIRMATIONS?"),
        ({"BATCH_MAX_GAS_FILE": "/x"}, "BATCH_MAX_GAS_FILE is not read: only secrets have a _FILE form"),
    ],
)
def test_what_is_probably_not_meant_is_warned_of(changed, warning):
    """Goal: allowed is not unnoticed. Method: one such setting at a time."""
    [found] = accepted({**SIGNING, **changed}, "payouts").warnings
    assert warning in found


def test_a_chain_that_stays_is_no_place_for_a_journal_that_does_not():
    """Goal: local mode beside a real endpoint is noticed. Method: a signing role with RPC_URL and no stores."""
    [found] = accepted({**KEYS, "RPC_URL": "https://rpc.example.com"}, "payouts").warnings
    assert "local mode throws the journal away" in found


def test_other_programs_names_raise_no_warning():
    """Goal: no noise in an ordinary shell or pod. Method: names that are found there, and near names of what is set."""
    others = ["PATH", "HOME", "LANG", "PWD", "HOSTNAME", "REDIS_PORT", "REDIS_HOST", "DATABASE_HOST", "PGHOST", "CI"]
    near = {"GRPC_URL": "x", "TX_CONFIRMATION": "1"}
    environ = {**SIGNING, "TX_CONFIRMATIONS": "12", **dict.fromkeys(others, "x"), **near}
    assert accepted(environ, "payouts").warnings == ()


def test_an_executor_comes_with_its_protocol():
    """Goal: a relayer never guesses for which contract a batch is. Method: the executor alone, and with it."""
    executor = {"BATCH_EXECUTOR_ADDRESS": "0x" + "8" * 40}
    assert refused({**WATCHING, **executor}, "watcher") == [
        "PROTOCOL_ADDRESS: expected an address, because BATCH_EXECUTOR_ADDRESS is set; found nothing"
    ]
    settings = accepted({**WATCHING, **executor, "PROTOCOL_ADDRESS": "0x" + "7" * 40}, "watcher")
    assert str(settings.batch_executor_address) == executor["BATCH_EXECUTOR_ADDRESS"]
