"""A Redis for the session, emptied for each test; or one of its own for a test that crashes or misconfigures it."""

import socket
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType
from urllib.parse import urlsplit

from tayho.local.redis import prepare
from tests.services.launch import Launched, launched


@contextmanager
def redis_server(overrides: Mapping[str, str] = MappingProxyType({})) -> Generator[Launched]:
    """Run a Redis; `overrides` are redis.conf settings, such as {"maxmemory-policy": "allkeys-lru"}."""
    with launched(partial(prepare, overrides=overrides)) as server:
        yield server


def ask(url: str, *words: str) -> str:
    """The first line of the answer to one command, without a client library."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=5) as connection:
        connection.sendall(f"AUTH {parts.password}\r\n".encode())
        connection.sendall(" ".join(words).encode() + b"\r\n")
        answers = connection.makefile("rb")
        assert answers.readline() == b"+OK\r\n", "Redis did not take the password."
        return answers.readline().decode().strip()
