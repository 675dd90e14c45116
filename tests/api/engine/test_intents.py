"""Intents over HTTP: one job each, the same answer for all, and a name for every refusal (INT-1, INT-2)."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any
from uuid import UUID

import httpx2
import pytest
import trio
from attrs import evolve

from rpc.errors import RpcError
from storage.errors import CommitUnknown, StoreUnavailable
from tayho.api.engine.bodies import BODY_BYTES_MAX
from tayho.api.engine.codes import OF_INTENTS
from tayho.api.engine.wire import OF_BATCH
from tayho.intents.errors import IntentRefused
from tayho.intents.types import IntentDomain, NotPermitted, SignedIntent
from tayho.kernel.address import Address
from tayho.kernel.ids import new_id
from tests.api.engine.replicas import Replica, body_of, is_problem
from tests.intents.conftest import DOMAIN, Line, intent, signed
from tests.intents.test_submit import GROUP_ORDER

pytestmark = pytest.mark.services


async def test_the_same_intent_a_hundred_times_at_once_is_one_job(engine: Replica, line: Line) -> None:
    """Goal: whoever submits, and however often, makes one job and hears the same (INT-2). Method: a hundred requests at
    once: one 202, the others 200, one id and one place; then its status."""
    body = body_of(signed(intent(), line.key), DOMAIN)
    answers: list[httpx2.Response] = []

    async def submit() -> None:
        answers.append(await engine.submit(body))

    async with trio.open_nursery() as clients:
        for _ in range(100):
            clients.start_soon(submit)
    assert Counter(answer.status_code for answer in answers) == {202: 1, 200: 99}
    assert len({(answer.headers["location"], answer.json()["id"], answer.json()["digest"]) for answer in answers}) == 1
    async with line.plane.database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM coordination.jobs") == 1

    status = await engine.client.get(answers[0].headers["location"])
    assert status.status_code == 200
    assert status.headers["cache-control"] == "no-store"
    told = status.json()
    assert (told["id"], told["state"], told["final"]) == (answers[0].json()["id"], "pending_batch", False)
    assert (told["account"], told["action"], told["batch"]) == (body["account"], body["action"], None)


MALFORMED: list[tuple[str, dict[str, Any]]] = [
    ("account", {"account": "0x12"}),
    ("account", {"account": "0xAbcdefabcdefabcdefabcdefabcdefabcdefabcd"}),
    ("account", {"account": None}),
    ("action", {"action": True}),
    ("action", {"action": 1.5}),
    ("market", {"market": "0x"}),
    ("payload", {"payload": "0x1"}),
    ("salt", {"salt": "01"}),
    ("salt", {"salt": -1}),
    ("salt", {"salt": 2**53}),
    ("deadline", {"deadline": "soon"}),
    ("signature", {"signature": "aa"}),
    ("domain", {"domain": 1}),
    ("chainId", {"domain": {"chainId": "x"}}),
    ("domain.name", {"domain": {"name": "x"}}),
    ("nonce", {"nonce": 1}),
    ("\\ud800\\x1b[31m", {"\ud800\x1b[31m": 1}),
]


async def test_a_field_that_is_wrong_is_named(engine: Replica, line: Line) -> None:
    """Goal: a client learns what to mend, and never an error of ours. Method: a good intent, spoiled in one field."""
    for field, changes in MALFORMED:
        body = json.dumps({**body_of(signed(intent(), line.key)), **changes}).encode()
        answer = await engine.submit(body)
        assert is_problem(answer, 422, "intent-malformed")
        assert answer.json()["field"] == field, changes


UNREADABLE = [
    *(b"", b"{", b"[]", b"null", b"1", b'"x"', b"\xff\xfe", b"{}x", b'{"salt":NaN}', b'{"salt":1,"salt":1}'),
    *(b"[" * 10_000, b'{"a":' * 2_000, b"9" * 5_000, b"\xef\xbb\xbf{}"),
]


async def test_what_is_no_json_object_is_refused(engine: Replica) -> None:
    """Goal: the same for what cannot even be read. Method: such bodies, deep and long ones among them."""
    for body in UNREADABLE:
        assert is_problem(await engine.submit(body), 400, "json-malformed"), body


def malleable(one: SignedIntent) -> SignedIntent:
    """The same signature written the other way, as anybody can."""
    other = GROUP_ORDER - int.from_bytes(one.signature[32:64], "big")
    flipped = one.signature[:32] + other.to_bytes(32, "big") + bytes([55 - one.signature[64]])
    return evolve(one, signature=flipped)


async def test_each_refusal_of_an_intent_has_its_code(engine: Replica, line: Line) -> None:
    """Goal: malleable, late, early, foreign and unpermitted intents are told apart (INT-2). Method: one of each; none
    of them is recorded, and none that could be told without the chain has asked it."""
    good = signed(intent(), line.key)
    elsewhere = IntentDomain(1, DOMAIN.protocol)
    other_contract = IntentDomain(DOMAIN.chain_id, Address(b"\x71" * 20))
    refused = [
        (malleable(good), DOMAIN, 422, "signature-malleable"),
        (evolve(good, signature=bytes(65)), DOMAIN, 422, "signature-malformed"),
        (evolve(good, signature=good.signature[:64]), DOMAIN, 422, "signature-malformed"),
        (signed(intent(deadline=0), line.key), DOMAIN, 422, "deadline-passed"),
        (signed(intent(deadline=2**64), line.key), DOMAIN, 422, "deadline-too-far"),
        (evolve(good, intent=evolve(good.intent, action=64)), DOMAIN, 422, "intent-malformed"),
        (evolve(good, intent=evolve(good.intent, payload=bytes(4_097))), DOMAIN, 422, "intent-malformed"),
        (signed(good.intent, line.key, elsewhere), elsewhere, 422, "domain-differs"),
        (signed(good.intent, line.key, other_contract), other_contract, 422, "domain-differs"),
    ]
    for one, domain, status, code in refused:
        assert is_problem(await engine.submit(body_of(one, domain)), status, code), code
    assert line.asked == 0
    line.refusal = NotPermitted("SessionExpired")
    answer = await engine.submit(body_of(good))
    assert is_problem(answer, 403, "intent-not-permitted")
    assert answer.json()["reason"] == "SessionExpired"
    async with line.plane.database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM coordination.jobs") == 0


async def test_a_body_that_is_too_large_or_of_another_type_is_refused(engine: Replica, line: Line) -> None:
    """Goal: no body fills the memory, its sender hears why, and a form of another site cannot submit. Method: one byte
    too many, a megabyte; other content types, and none."""
    for size in (BODY_BYTES_MAX + 1, 1_000_000):
        assert is_problem(await engine.submit(b" " * size), 413, "body-too-large")
    good = json.dumps(body_of(signed(intent(), line.key))).encode()
    for content_type in ("text/plain", "application/x-www-form-urlencoded", "", "application/jsonx"):
        answer = await engine.submit(good, **{"Content-Type": content_type})
        assert is_problem(answer, 415, "content-type-unsupported"), content_type
    assert (await engine.submit(good, **{"Content-Type": "application/json; charset=utf-8"})).status_code == 202


async def test_what_is_not_there_and_what_is_not_taken_is_told(engine: Replica) -> None:
    """Goal: the framework's own refusals are problem documents too. Method: unknown routes, ids and methods."""
    for path in ("/", "/v1", "/v1/intents/a/b", "/v1/%2e%2e/intents", "/healthz", "/metrics", "/%ff"):
        assert is_problem(await engine.client.get(path), 404, "route-unknown"), path
    for intent_id in (str(new_id()), "x", str(new_id()).upper(), new_id().hex, "1;DROP", "%00", "%f0%28"):
        for path in (f"/v1/intents/{intent_id}", f"/v1/intents/{intent_id}/events"):
            assert is_problem(await engine.client.get(path), 404, "intent-unknown"), path
    answer = await engine.client.delete("/v1/intents")
    assert is_problem(answer, 405, "method-not-allowed")
    assert "POST" in answer.headers["allow"]


async def test_every_answer_has_a_request_id(engine: Replica) -> None:
    """Goal: a client and the log speak of the same request. Method: a sane id is kept; any other is replaced."""
    assert (await engine.status(str(new_id()), **{"X-Request-Id": "trace-7.a"})).headers["x-request-id"] == "trace-7.a"
    made = set()
    for insane in ("", "a b", "x" * 65, "-x", 'x"y', "<script>", "\u00e9"):
        answer = await engine.client.get("/v1/intents/x", headers={b"X-Request-Id": insane.encode("latin-1")})
        made.add(answer.headers["x-request-id"])
    assert len(made) == 7
    assert all(len(one) == 32 for one in made)


async def test_an_outage_is_503_and_says_what_to_do(
    engine: Replica, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: away is not refused, and never a 500. Method: a line that raises what the store and the chain raise."""
    outages = [
        (StoreUnavailable("postgresql://u:hunter2@db"), "store-unavailable"),
        (CommitUnknown("cut off"), "outcome-unknown"),
        (RpcError("http://node/v2/hunter2"), "chain-unavailable"),
    ]
    for error, code in outages:

        async def away(*_: object, error: Exception = error) -> None:
            await trio.lowlevel.checkpoint()
            raise error

        monkeypatch.setattr(line.intents, "submit", away)
        answer = await engine.submit(body_of(signed(intent(), line.key)))
        assert is_problem(answer, 503, code)
        assert answer.headers["retry-after"] == "1"
        assert "hunter2" not in answer.text


async def test_what_an_operator_or_an_outage_said_is_not_told(engine: Replica, line: Line) -> None:
    """Goal: the public reads of its own intents, and not of us. Method: intents whose jobs carry an operator's words,
    an outage's, and their own failure; only the last is repeated."""
    own = {"type": "IntentFailed", "message": "the protocol refused it", "child_index": 0}
    kept = [
        {"type": "Cancelled", "message": "cancelled by alice: the node at 10.0.0.7 is down"},
        {"type": "StoreUnavailable", "message": "postgresql://db.internal"},
        own,
    ]
    told = []
    for salt, last_error in enumerate(kept):
        intent_id = (await engine.submit(body_of(signed(intent(salt=salt), line.key)))).json()["id"]
        async with line.plane.database.connection() as connection:
            await connection.execute(
                "UPDATE coordination.jobs SET last_error = $2 WHERE job_id = $1", UUID(intent_id), last_error
            )
        told.append((await engine.status(intent_id)).json()["error"])
    assert told == [OF_BATCH, OF_BATCH, own]


def test_every_refusal_of_the_context_has_a_code_of_the_face() -> None:
    """Goal: a new class of refusal cannot fall through. Method: every class against the table."""
    assert {one.code for one in IntentRefused.__subclasses__()} == OF_INTENTS.keys()
