"""Secrets: mounted files, and that nothing of a secret is ever shown."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tayho.config import ConfigurationRefused, Settings, load_settings
from tayho.config.reading import FILE_CHARACTERS_MAX
from tayho.config.variables import VARIABLES
from tayho.kernel.roles import ROLES
from tests.config.environments import (
    IDENTITY_HEX,
    JOURNAL_HEX,
    KEY_HEX,
    LIVE,
    OTHER_KEY_HEX,
    PASSWORD,
    PATH_KEY,
    SIGNING,
    accepted,
    refused,
)

MASKED = [variable for variable in VARIABLES if variable.is_masked]
SECRETS = (KEY_HEX, OTHER_KEY_HEX, JOURNAL_HEX, IDENTITY_HEX, PASSWORD, PATH_KEY)


def all_that_is_shown(environ, roles, read_file=None) -> tuple[Settings | None, str]:
    """Everything a person or a log could see of a loading, and the settings if it was accepted."""
    given_reader = {} if read_file is None else {"read_file": read_file}
    try:
        loaded = load_settings(environ, roles, **given_reader)
    except ConfigurationRefused as error:
        return None, "\n".join([*error.lines(), str(error), repr(error), *traceback.format_exception(error)])
    rows = [" ".join(row) for row in loaded.shown()]
    return loaded, "\n".join([repr(loaded), str(loaded), *rows, *loaded.warnings])


@pytest.mark.parametrize("variable", MASKED, ids=lambda variable: variable.name)
def test_each_secret_can_stand_in_a_mounted_file(variable, tmp_path):
    """Goal: the NAME_FILE form, read as editors and orchestrators write it. Method: move one secret into a file."""
    mounted = tmp_path / "secret"
    mounted.write_text(f"\ufeff{LIVE[variable.name]}\r\n", encoding="utf-8")
    environ = {name: text for name, text in LIVE.items() if name != variable.name}
    loaded = load_settings({**environ, variable.file_name: str(mounted)}, ["payouts"])
    direct = accepted(LIVE, "payouts")
    assert [row[:2] for row in loaded.shown() if row[0] != "INSTANCE_ID"] == [
        row[:2] for row in direct.shown() if row[0] != "INSTANCE_ID"
    ]
    assert (loaded.database_url, loaded.redis_url, loaded.rpc_url, loaded.rpc_read_urls) == (
        direct.database_url,
        direct.redis_url,
        direct.rpc_url,
        direct.rpc_read_urls,
    )
    [source] = [source for name, _, source in loaded.shown() if name == variable.name]
    assert source == f"file {mounted}"


def test_both_forms_of_a_secret_are_refused():
    """Goal: nobody wonders which of the two holds. Method: set both."""
    [line] = refused({**SIGNING, "SIGNER_KEYS_FILE": "/run/secrets/keys"}, "payouts")
    assert line == "SIGNER_KEYS: expected one of the two forms; found both SIGNER_KEYS and SIGNER_KEYS_FILE"


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/nowhere/secret", "/nowhere/secret: No such file or directory"),
        ("/", "/: Is a directory"),
        ("relative/secret", "a text of 15 characters that does not start with /"),
        (f"0x{KEY_HEX}", "a text of 66 characters that does not start with /"),
        ("/with\x00nul", "'/with\\x00nul': the path cannot be opened"),
        ("/" + "x" * 300, "a text of 301 characters: File name too long"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_the_reason(path, found):
    """Goal: a wrong mount is mended from the line alone. Method: paths that fail in every way, one a misplaced key."""
    environ = {name: text for name, text in SIGNING.items() if name != "SIGNER_KEYS"}
    with pytest.raises(ConfigurationRefused) as caught:
        load_settings({**environ, "SIGNER_KEYS_FILE": path}, ["payouts"])
    expected = f"SIGNER_KEYS_FILE: expected the absolute path of a file with the text; found {found}"
    assert caught.value.lines() == [expected]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "an empty text"),
        (b" \n", "an empty text"),
        (b"\xff\xfe\x00", "its bytes are no UTF-8"),
        (b"x" * (FILE_CHARACTERS_MAX + 1), "it holds more than 1000000 characters"),
    ],
)
def test_a_file_without_a_usable_text_is_refused(content, found, tmp_path):
    """Goal: an empty, binary or endless mount is told as such. Method: files of that content."""
    mounted = tmp_path / "secret"
    mounted.write_bytes(content)
    environ = {name: text for name, text in SIGNING.items() if name != "SIGNER_KEYS"}
    with pytest.raises(ConfigurationRefused) as caught:
        load_settings({**environ, "SIGNER_KEYS_FILE": str(mounted)}, ["payouts"])
    [line] = caught.value.lines()
    assert found in line


def test_an_endless_file_is_not_read_to_its_end():
    """Goal: a device in place of a secret does not fill the memory. Method: the endless device itself."""
    environ = {name: text for name, text in SIGNING.items() if name != "REDIS_URL"}
    _, shown = all_that_is_shown({**environ, "REDIS_URL_FILE": "/dev/zero"}, ["payouts"])
    assert "found /dev/zero: it holds more than 1000000 characters" in shown


def test_an_env_file_is_not_read(tmp_path, monkeypatch):
    """Goal: only the environment counts. Method: a .env file in the working directory, with other values."""
    (tmp_path / ".env").write_text("DRAIN_SECONDS=1\nDATABASE_URL=postgresql://elsewhere/db\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    loaded = load_settings({}, ["watcher"])
    assert (loaded.drain_seconds, loaded.database_url) == (60, None)


def test_an_accepted_configuration_shows_no_secret():
    """Goal: repr, table and warnings are safe to print. Method: look for every secret of the environment in them."""
    loaded, shown = all_that_is_shown(LIVE, ["payouts"])
    assert loaded is not None
    assert not [secret for secret in SECRETS if secret in shown]
    rows = {name: value for name, value, _ in loaded.shown()}
    assert rows["DATABASE_URL"] == "postgresql://tayho:***@db-1:5432,db-2/tayho"
    assert rows["REDIS_URL"] == "queue:6379 database 1"
    assert rows["RPC_URL"] == "https://rpc.example.com/…"
    assert rows["SIGNER_KEYS"].count("0x") == 2
    assert rows["TX_JOURNAL_KEYS"] == "2026 (active)"


@pytest.mark.parametrize("variable", MASKED, ids=lambda variable: variable.name)
@pytest.mark.parametrize(
    "spoiled", ["{}x", "{} {}", "x{}", "{}@", "@{}", "{}:99999", '{}"', "{}\x1b", "{}#/@", "[{}", ":{}"]
)
def test_a_refused_secret_is_not_quoted(variable, spoiled):
    """Goal: a slip in a secret does not print it. Method: spoil each secret in many ways and look for it."""
    for misplaced in (LIVE[variable.name], *SECRETS):
        text = spoiled.replace("{}", misplaced)
        _, shown = all_that_is_shown({**LIVE, variable.name: text}, ["payouts"])
        found = [secret for secret in SECRETS if secret in shown]
        # A misplaced secret that stands where a host stands cannot be told from a host.
        assert not found or misplaced in (PASSWORD, PATH_KEY), (text, shown)


@pytest.mark.parametrize(
    "url", ["https://user:12#34@rpc.example.com", "https://user:12?x@rpc.example.com", "https://user:12/34@rpc/a"]
)
def test_an_unescaped_sign_in_a_password_does_not_move_the_host(url):
    """Goal: the writes go where the URL was meant to point. Method: passwords whose beginning reads as a port."""
    [line] = refused({**SIGNING, "RPC_URL": url}, "payouts")
    assert line.endswith("written as %XX; found an @ after the host, not shown")


def test_bytes_that_are_no_text_are_refused():
    """Goal: no later encoding fails on them. Method: a password with a byte that the system could not decode."""
    [line] = refused({**SIGNING, "DATABASE_URL": "postgresql://u:p\udcff@db/x"}, "payouts")
    assert line.endswith("found bytes that are no UTF-8")


NAMES = [name for variable in VARIABLES for name in (variable.name, variable.file_name)]
TEXTS = st.one_of(
    st.text(max_size=40),
    st.sampled_from([*LIVE.values(), "/run/secrets/x", "/", "live", "0", "1", "true", "json", "[::]:1", "unix:///x"]),
    st.integers(-10, 10**12).map(str),
    st.builds(
        lambda scheme, rest: scheme + rest,
        st.sampled_from(["postgresql://", "redis://", "rediss://", "unix://", "http://", "https://", "http://[", "//"]),
        st.text(alphabet="ab.:/@?#%[]&=,1\\ \t\u0661é\udc80", max_size=30),
    ),
    st.builds(lambda text: f'["{text}"]', st.text(max_size=20)),
)


@settings(max_examples=300, deadline=None)
@given(
    environ=st.dictionaries(st.sampled_from(NAMES), TEXTS, max_size=12),
    base=st.sampled_from([{}, dict(SIGNING), dict(LIVE)]),
    roles=st.lists(st.one_of(st.sampled_from(sorted(ROLES)), st.text(max_size=8)), max_size=3),
    mounted=st.one_of(st.text(max_size=40), st.sampled_from([OSError(5, "broken"), ValueError("no"), *LIVE.values()])),
)
def test_no_environment_raises_anything_but_a_refusal(environ, base, roles, mounted):
    """Goal: no text crashes the start, no secret is shown. Method: random environments laid over valid ones."""

    def read_file(_path: Path) -> str:
        if isinstance(mounted, Exception):
            raise mounted
        return mounted

    loaded, shown = all_that_is_shown({**base, **environ}, roles, read_file)
    assert shown.encode()
    assert not [secret for secret in SECRETS if secret in shown]
    if loaded is not None:
        assert loaded.is_local_mode == (loaded.database_url is None) == (loaded.redis_url is None)


@settings(max_examples=200, deadline=None)
@given(
    sign=st.text(alphabet="abc%/@:#?[]!$&'()*+,;= éπ", min_size=1, max_size=12),
    template=st.sampled_from(
        [
            ("DATABASE_URL", "postgresql://user:{}@db:5432/tayho"),
            ("DATABASE_URL", "postgresql://db/tayho?password={}"),
            ("REDIS_URL", "redis://user:{}@queue:6379/0"),
            ("REDIS_URL", "redis://queue:6379/0?password={}"),
            ("REDIS_URL", "redis+sentinel://user:{}@queue-1,queue-2/tayho"),
            ("REDIS_URL", "redis+sentinel://queue-1,queue-2/tayho?sentinel_password={}"),
            ("REDIS_URL", "redis+cluster://user:{}@queue-1,queue-2"),
            ("RPC_URL", "https://user:{}@rpc.example.com/"),
            ("RPC_URL", "https://rpc.example.com/v2/{}"),
            ("RPC_READ_URLS", "https://rpc.example.com/?key={}"),
        ]
    ),
)
def test_a_password_with_any_signs_in_it_is_not_shown(sign, template):
    """Goal: an unescaped sign moves no part of a password to where it is printed. Method: random ones in each URL."""
    name, url = template
    _, shown = all_that_is_shown({**SIGNING, name: url.format(f"{sign}q7Zw9{sign}")}, ["payouts"])
    assert "q7Zw9" not in shown
    assert "q7zw9" not in shown
