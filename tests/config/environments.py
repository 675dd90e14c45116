"""Environments that are accepted, to break one thing in at a time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tayho.config import ConfigurationRefused, Settings, load_settings

KEY_HEX = "5d2f1c9ae07bb843a6cf4e1d08f79b3362aa54cd917e06b8f1d2c3a495867b0e"
OTHER_KEY_HEX = "c3a495867b0e5d2f1c9ae07bb843a6cf4e1d08f79b3362aa54cd917e06b8f1d2"
JOURNAL_HEX = "91e7a06b8f1d2c3a495867b0e5d2f1c9ae07bb843a6cf4e1d08f79b3362aa54c"
IDENTITY_HEX = "2d3c4958b0e7f1d29e7a06b8f167b0e5d2a6ac9ae07bb843a6cf4e1d08f79b33"
PASSWORD = "correct-horse-battery"
PATH_KEY = "v3aK9xkQ2mZp7TqLw1"

STORES = {
    "DATABASE_URL": f"postgresql://tayho:{PASSWORD}@db-1:5432,db-2/tayho",
    "REDIS_URL": f"redis://:{PASSWORD}@queue:6379/1",
}
CHAIN = {"RPC_URL": f"https://rpc.example.com/v2/{PATH_KEY}", "CHAIN_ID": "1", "ENVIRONMENT": "staging"}
KEYS = {
    "SIGNER_KEYS": f'["0x{KEY_HEX}", "0x{OTHER_KEY_HEX}"]',
    "TX_JOURNAL_KEYS": f'{{"2026": "0x{JOURNAL_HEX}"}}',
    "TX_JOURNAL_ACTIVE_KEY_ID": "2026",
    "TX_MAX_FEE_PER_GAS_WEI": str(500 * 10**9),
}
WATCHING: Mapping[str, str] = {**STORES, **CHAIN}
VOTERS = {"RPC_READ_URLS": "https://a.example.com, https://b.example.com, https://c.example.com"}
SIGNING: Mapping[str, str] = {**WATCHING, **KEYS, **VOTERS}
ENGINE = {"PROTOCOL_ADDRESS": "0x" + "7" * 40, "ENGINE_IDENTITY_KEY": f"0x{IDENTITY_HEX}"}
SOURCE = {
    "url": f"https://oracle.example.com/v1/{PATH_KEY}",
    "value": "/value",
    "timestamp": "/at",
    "signer": "0x" + "6" * 40,
    "subject": "/about",
    "subject_is": "ETH-USD",
}
FACT = {"source": SOURCE, "minimum": "-1", "maximum": "1", "age_seconds_max": 60}
PROTOCOL = {"PROTOCOL_MARKETS": json.dumps({"ETH-USD": {"resolution": FACT}})}
# With every secret in it.
LIVE: Mapping[str, str] = {**SIGNING, **ENGINE, **PROTOCOL, "ENVIRONMENT": "live"}


def no_file(path: Path) -> str:
    """For the tests in which no file is named."""
    raise AssertionError(f"{path} was opened")


def refused(environ: Mapping[str, str], *roles: str) -> list[str]:
    """The lines of the refusal."""
    with pytest.raises(ConfigurationRefused) as caught:
        load_settings(environ, roles, read_file=no_file)
    assert str(caught.value).count("\n") == len(caught.value.lines()), "every problem is one line"
    return caught.value.lines()


def accepted(environ: Mapping[str, str], *roles: str) -> Settings:
    return load_settings(environ, roles, read_file=no_file)


def refused_names(environ: Mapping[str, str], roles: Sequence[str]) -> list[str]:
    """The variable of each problem."""
    return [line.partition(":")[0] for line in refused(environ, *roles)]
