"""Faults that leave no usable answer: connections, HTTP, bodies, envelopes, values in the wrong shape."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from tests.rpc import faulty_server as raw
from tests.rpc.front import behaviours as front
from tests.rpc.front.front import Json
from tests.rpc.matrix.fault import BROKEN, Fault, Must, demands

_BOMB_BYTES = 300 * 2**20
_LONG_BYTES = 64 * 2**20


def broken_answers() -> list[Fault]:
    """Every fault of this kind."""
    return [*_connections(), *_statuses(), *_bodies(), *_envelopes(), *_values(), *_batches()]


def _connections() -> Iterable[Fault]:
    for name, arm in {
        "connection refused": front.refuses_connections,
        "accepted and closed": front.accepts_and_closes,
        "hang before headers": front.always(raw.hang),
        "hang in headers": front.always(raw.hang_in_headers),
        "hang in body": front.always(raw.hang_in_body),
        "a byte a second": front.always(raw.dripping(1)),
        "closed in body": front.always(raw.close_in_body),
        "reset in body": front.always(front.reset_in_body),
        "not HTTP": front.always(raw.answer_raw(b"SSH-2.0-OpenSSH_9.6\r\n")),
    }.items():
        yield Fault(name, "connection", arm, BROKEN)


def _statuses() -> Iterable[Fault]:
    limited = {
        "no Retry-After": {},
        "Retry-After 2 s": {"retry-after": "2"},
        "Retry-After a date": {"retry-after": "Tue, 01 Jan 2036 00:00:00 GMT"},
        "Retry-After 0": {"retry-after": "0"},
        "Retry-After absurd": {"retry-after": "99999999999999999999"},
    }
    for name, headers in limited.items():
        yield _status(f"429, {name}", raw.answer_body(b"slow down", status=429, headers=headers))
    for status in (400, 401, 403, 404, 500, 502, 503):
        yield _status(f"{status}", raw.answer_body(b"<html>no</html>", status=status))
    yield _status("503, Retry-After 2 s", raw.answer_body(b"", status=503, headers={"retry-after": "2"}))
    for status in (301, 307, 308):
        yield Fault(f"{status} to another story", "HTTP", front.redirects(status), BROKEN)


def _status(name: str, behaviour: raw.Behaviour) -> Fault:
    return Fault(f"HTTP {name}", "HTTP", front.always(behaviour), BROKEN)


def _bodies() -> Iterable[Fault]:
    html = {"content-type": "text/html"}
    for name, behaviour in {
        "HTML with status 200": raw.answer_body(b"<!doctype html><p>login</p>", headers=html),
        "empty body": raw.answer_body(b""),
        "JSON cut off": raw.answer_body(b'{"jsonrpc":"2.0","id":1,"resu'),
        "not JSON": raw.answer_body(b"ok"),
        "not UTF-8": raw.answer_body(b'{"jsonrpc":"2.0","id":1,"result":"\xff\xfe"}'),
        "a JSON string": raw.answer_body(b'"0x1"'),
        "JSON null": raw.answer_body(b"null"),
        "gzip bomb": raw.gzip_bomb(_BOMB_BYTES),
        "garbled gzip": raw.answer_body(b"\x1f\x8b\x08garbage", headers={"content-encoding": "gzip"}),
        "unknown content encoding": raw.answer_body(b"??", headers={"content-encoding": "zstd9"}),
    }.items():
        yield Fault(name, "body", front.always(behaviour), BROKEN)
    yield Fault("huge chunked body", "body", front.answers_at_length(_LONG_BYTES), BROKEN)
    yield Fault("content length too long", "body", front.answers_at_length(0, extra=7), BROKEN)
    yield Fault("content length too short", "body", front.answers_at_length(0, extra=-7), BROKEN)


def _envelopes() -> Iterable[Fault]:
    spoils: dict[str, front.Spoil] = {
        "wrong id": lambda call, answer: answer | {"id": 987654321},
        "no id": lambda call, answer: {key: value for key, value in answer.items() if key != "id"},
        "id null": lambda call, answer: answer | {"id": None},
        "id as string": lambda call, answer: answer | {"id": str(call["id"])},
        "no result": lambda call, answer: {"jsonrpc": "2.0", "id": call["id"]},
        "result and error": lambda call, answer: answer | {"error": {"code": -32000, "message": "no"}},
        "no version": lambda call, answer: {key: value for key, value in answer.items() if key != "jsonrpc"},
        "error message not a string": lambda call, answer: _error(call, {"code": -32000, "message": {"no": 1}}),
        "error code not a number": lambda call, answer: _error(call, {"code": "no", "message": "no"}),
        "error a string": lambda call, answer: _error(call, "no"),
        "error null beside nothing": lambda call, answer: _error(call, None),
        "two results": _two_results,
    }
    for name, spoil in spoils.items():
        yield Fault(name, "envelope", front.spoiling(spoil), BROKEN)


def _two_results(call: Json, answer: Json) -> str:
    """A member given twice, the truth first: readers differ in which one counts."""
    return json.dumps(answer)[:-1] + ',"result":"0x7"}'


def _error(call: Json, error: object) -> Json:
    return {"jsonrpc": "2.0", "id": call["id"], "error": error}


def _values() -> Iterable[Fault]:
    raws = {
        "nested 100,000 deep": "[" * 100_000 + "]" * 100_000,
        "the number 1e400": "1e400",
        "NaN": "NaN",
        "a number of 5,000 digits": "9" * 5000,
        "number for string": "1",
        "array for string": '["0x1"]',
        "object for string": '{"value":"0x1"}',
        "true for string": "true",
        "null where there must be a value": "null",
    }
    for name, text in raws.items():
        # A null receipt is an answer ("not yet"), so what is voted on is the nonce here.
        yield Fault(name, "value", front.raw_result(text), BROKEN, vote="nonce")
    rewords: dict[str, front.Reword] = {
        "leading zeros": lambda call, result: _each_hex(result, lambda digits: "0x0" + digits),
        "overflow": lambda call, result: _each_hex(result, lambda digits: "0x1" + digits.rjust(64, "0")),
        "uppercase prefix": lambda call, result: _each_hex(result, lambda digits: "0X" + digits),
        "no prefix": lambda call, result: _each_hex(result, lambda digits: digits),
        "minus": lambda call, result: _each_hex(result, lambda digits: "-0x" + digits),
        "empty hex": lambda call, result: _each_hex(result, lambda digits: "0x"),
        "space around": lambda call, result: _each_hex(result, lambda digits: f" 0x{digits} "),
    }
    for name, reword in rewords.items():
        yield Fault(f"quantities with {name}", "value", front.rewording(reword), BROKEN)
    data: dict[str, front.Reword] = {
        "odd": lambda call, result: result[:-1],
        "short": lambda call, result: result[:-2],
        "long": lambda call, result: result + "00",
    }
    for name, reword in data.items():
        yield Fault(f"hashes that are {name}", "value", front.rewording(_of_hashes(reword)), BROKEN, read="block")
    for member in ("status", "blockHash", "logs", "gasUsed", "transactionHash"):
        arm = front.rewording(_without(member), {"eth_getTransactionReceipt"})
        yield Fault(f"receipt without {member}", "value", arm, BROKEN, read="receipt")


def _each_hex(result: object, write: Callable[[str], str]) -> object:
    """Every quantity in it written otherwise; DATA, which is longer, stays."""
    if isinstance(result, dict):
        return {name: _each_hex(value, write) for name, value in result.items()}
    is_quantity = isinstance(result, str) and result.startswith("0x") and 2 < len(result) <= 18
    return write(str(result)[2:]) if is_quantity else result


def _of_hashes(reword: front.Reword) -> front.Reword:
    def change(call: Json, result: object) -> object:
        if isinstance(result, dict):
            return {name: change(call, value) for name, value in result.items()}
        return reword(call, result) if isinstance(result, str) and len(result) == 66 else result

    return change


def _without(member: str) -> front.Reword:
    def change(call: Json, result: object) -> object:
        if isinstance(result, dict):
            return {name: value for name, value in result.items() if name != member}
        return result

    return change


def _batches() -> Iterable[Fault]:
    spoils = {
        "one answer of the batch missing": lambda answers: answers[:-1],
        "one answer of the batch twice": lambda answers: [*answers, answers[0]],
        "an answer nobody asked for": lambda answers: [*answers, answers[0] | {"id": 987654321}],
        "a single object for the batch": lambda answers: answers[0],
        "an empty array for the batch": lambda answers: [],
        "ids of the batch swapped to strings": lambda answers: [one | {"id": str(one["id"])} for one in answers],
    }
    ways = ("read", "hedged read", "vote")
    judged = demands(ways=ways)
    for name, spoil in spoils.items():
        yield Fault(name, "batch", front.in_batches(spoil), judged, read="batch", vote="batch")
    right = demands(every=Must.BE_RIGHT, ways=ways)
    yield Fault("batch in reverse order", "batch", front.reordered, right, read="batch", vote="batch")
