"""Signed bytes and keys stay where they belong, whatever is logged, measured, stored or answered (TX-2)."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest
from attrs import frozen
from eth_utils.crypto import keccak

from rpc.endpoint import Endpoint
from rpc.reads import Call
from storage.redis_client import RedisServer, open_redis
from tayho.demo.fleet import fleet
from tayho.local.development import PUBLIC_ACCOUNTS
from tayho.local.process import free_port
from tests.crash.backups import dumped
from tests.crash.world import World, environment_of
from tests.rpc.faulty_server import Request
from tests.rpc.front.front import Front, Node, Nodes, answer_with, fronts
from tests.services.chain import LocalChain

pytestmark = [pytest.mark.crash, pytest.mark.services]

JOBS = 6
ECHOES = 3
JOURNAL_KEY = "5a" * 32
# Compressed bytes could hide anything.
DUMPS = {
    "a plain dump": ("--format=plain",),
    "a plain dump as statements": ("--format=plain", "--inserts"),
    "a custom dump": ("--format=custom", "--compress=none"),
}
# Everything that any library says, down to the last debug line.
DEBUG = """
import logging
import structlog

logging.basicConfig(level=logging.DEBUG)
filtering = structlog.make_filtering_bound_logger
structlog.make_filtering_bound_logger = lambda level: filtering(logging.DEBUG)
"""


@frozen
class Needle:
    """Something secret, and each form in which it might be written."""

    name: str
    secret: bytes

    def found_in(self, haystack: bytes) -> bool:
        return any(form in haystack for form in self._forms())

    def _forms(self) -> Iterator[bytes]:
        yield self.secret
        yield self.secret.hex().encode()
        yield self.secret.hex().upper().encode()
        yield repr(self.secret)[2:-1].encode()
        # Base64 of a part of something longer begins at any of three places.
        for shift in range(3):
            encoded = base64.b64encode(bytes(shift) + self.secret)
            yield encoded[4 if shift else 0 : -4]
            yield base64.urlsafe_b64encode(bytes(shift) + self.secret)[4 if shift else 0 : -4]


async def test_signed_bytes_and_keys_are_nowhere_to_be_read(
    crashing: World, chain: LocalChain, database_url: str, redis_url: str, tmp_path: Path
) -> None:
    """Goal: PRF of TX-2: no signed byte and no key is in a log, a metric, a backup or Redis. Method: real processes,
    all logging at debug, against a node that repeats what it is sent in its refusals; then everything that they wrote,
    and full dumps of the database, are searched for each transaction's bytes and its signature, and for the keys, in
    every usual form."""
    home = tmp_path / "debug"
    home.mkdir()
    (home / "sitecustomize.py").write_text(DEBUG, encoding="utf-8")
    port = free_port()
    async with Node.at(chain.url) as node, fronts(Nodes(node, node), 1) as (front,):
        front.arm(_echo, {"eth_sendRawTransaction"}, range(1, ECHOES + 1))
        environment = environment_of(database_url, redis_url, front.url) | {
            "PYTHONPATH": str(home),
            "HTTP_BIND": f"127.0.0.1:{port}",
        }
        async with fleet(tmp_path, environment) as replicas:
            await replicas.start("automation", 1)
            job_ids = await crashing.enqueue("key", JOBS)
            assert set((await crashing.await_all_ended(job_ids)).values()) == {"completed"}
            metrics = await _scraped(port)
            await replicas.stop()
            logs = b"\n".join(replica.log.read_bytes() for replica in replicas.replicas)
        sent = _sent(front)
    assert len(sent) >= JOBS
    assert b'"level": "debug"' in logs or b"DEBUG" in logs, "the processes did not log at debug"
    async with open_redis(redis_url) as redis:
        found = {
            "logs": logs,
            "metrics": metrics,
            **await _dumps(database_url, tmp_path),
            "redis": await _redis(redis),
        }
    for name in DUMPS:
        dump = found[name]
        assert all(str(job_id).encode() in dump for job_id in job_ids), f"{name} is not whole"
        assert all(keccak(raw).hex().encode() in dump for raw in sent), f"{name} is not whole"
    needles = _keys()
    for raw in sent:
        needles += _signed(raw, await _mined(crashing.node, raw))
    leaks = [(needle.name, place) for place, text in found.items() for needle in needles if needle.found_in(text)]
    assert not leaks, leaks


def test_a_secret_is_found_in_each_form() -> None:
    """Goal: the search above can find. Method: a secret in each form, amid other text."""
    secret = bytes(range(7, 100))
    needle = Needle("a secret", secret)
    texts = [
        secret,
        secret.hex().encode(),
        secret.hex().upper().encode(),
        repr(secret).encode(),
        *(base64.b64encode(b"x" * shift + secret + b"yz") for shift in range(4)),
    ]
    assert all(needle.found_in(b"before " + text + b" after") for text in texts)
    assert not needle.found_in(b"before " + secret[:-1] + b" after")


async def _echo(request: Request) -> None:
    """Refuse, and repeat what was sent: some nodes and gateways do."""
    answers = [
        {
            "jsonrpc": "2.0",
            "id": call["id"],
            "error": {"code": -32000, "message": f"cannot take {call['params'][0]}", "data": call["params"][0]},
        }
        for call in request.calls
    ]
    await answer_with(request, answers)


def _sent(front: Front) -> set[bytes]:
    """The raw transactions that passed the front."""
    return {
        bytes.fromhex(call["params"][0][2:])
        for request in front.server.requests
        for call in request.calls
        if call["method"] == "eth_sendRawTransaction"
    }


def _keys() -> list[Needle]:
    signers = [Needle("a signer key", bytes.fromhex(key[2:])) for _, key in PUBLIC_ACCOUNTS]
    return [*signers, Needle("the journal key", bytes.fromhex(JOURNAL_KEY))]


def _signed(raw: bytes, mined: Mapping[str, Any] | None) -> list[Needle]:
    """The bytes, and the half of the signature by which anybody could make them again."""
    needles = [Needle("a raw transaction", raw)]
    if mined is not None:
        needles += [Needle(f"a signature's {name}", bytes.fromhex(mined[name][2:].rjust(64, "0"))) for name in "rs"]
    return needles


async def _mined(node: Endpoint, raw: bytes) -> Mapping[str, Any] | None:

    question: Call[Any] = Call("eth_getTransactionByHash", (f"0x{keccak(raw).hex()}",), lambda answer: answer)
    return await node.ask(question)


async def _scraped(port: int) -> bytes:
    async with httpx2.AsyncClient() as client:
        answer = await client.get(f"http://127.0.0.1:{port}/metrics")
    assert answer.status_code == 200
    assert b"tayho" in answer.content
    return answer.content


async def _dumps(database_url: str, folder: Path) -> dict[str, bytes]:
    """The whole database in each format that an operator's backup may have."""
    return {
        name: (await dumped(database_url, folder / f"{number}.dump", *options)).read_bytes()
        for number, (name, options) in enumerate(DUMPS.items())
    }


async def _redis(redis: RedisServer) -> bytes:
    """Every value of every key."""
    ways = {
        b"hash": ["HGETALL"],
        b"string": ["GET"],
        b"list": ["LRANGE", 0, -1],
        b"zset": ["ZRANGE", 0, -1],
        b"set": ["SMEMBERS"],
        b"stream": ["XRANGE", "-", "+"],
    }
    parts: list[str] = []
    for key in await redis.ask_one(["KEYS", "*"]):
        kind = await redis.ask_one(["TYPE", key])
        command, *bounds = ways[kind if isinstance(kind, bytes) else str(kind).encode()]
        parts.append(repr(await redis.ask_one([command, key, *bounds])))
    assert parts
    return "\n".join(parts).encode()
