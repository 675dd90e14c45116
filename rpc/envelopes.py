"""The JSON-RPC 2.0 envelope around questions and answers. Pure.

Strict where a value could be wrong: an answer must carry version 2.0, our very id, and exactly one of result and
error. Forgiving in one place only: an error without an id, in answer to a single question, is about that question
(gateways refuse before they read the id), and an error is never mistaken for a value.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias, cast

from attrs import frozen

from rpc.members import Members, text
from rpc.quantities import Unreadable, excerpt
from rpc.reads import Call

_CODE_MAX = 2**63
# Longer than any node's wording, short enough to search with patterns.
_MESSAGE_CHARACTERS_MAX = 2000


@frozen
class Result:
    """The value a node answered, not yet read."""

    value: object


@frozen
class Refusal:
    """The error a node answered."""

    code: int
    message: str
    data: object


Answer: TypeAlias = Result | Refusal


class NotAnswered(Unreadable):
    """A question of a batch has no answer in it."""


def single_request(call_id: int, call: Call[object]) -> bytes:
    """The body of one question."""
    return _encoded(_question(call_id, call))


def batch_request(questions: Sequence[tuple[int, Call[object]]]) -> bytes:
    """The body of several questions."""
    return _encoded([_question(call_id, call) for call_id, call in questions])


def read_answer(document: object, call_id: int) -> Answer:
    """The answer to the single question `call_id`. Raises Unreadable."""
    envelope = Members.of(document, "answer")
    answer = _content(envelope)
    found = envelope.values.get("id")
    unattributed = found is None and isinstance(answer, Refusal)
    # Equal in type too: in Python 1 equals true and 1.0.
    if not unattributed and (type(found) is not int or found != call_id):
        raise Unreadable(f"the answer carries id {_shown_id(found)}, asked with {call_id}")
    return answer


def read_batch(document: object, call_ids: Collection[int]) -> Refusal | Mapping[int, Answer | Unreadable]:
    """The answers of a batch by id, in whatever order they came; or the one refusal of the batch as a whole.

    An answer that is missing, given twice or unreadable is Unreadable for its question alone. Raises Unreadable for
    the whole batch when it is no array, or holds an answer nobody asked for: then nothing in it can be trusted to be
    about what its id says.
    """
    if isinstance(document, dict):
        return _refusal_of_all(Members.of(cast("object", document), "answer"))
    if not isinstance(document, list):
        raise Unreadable(f"expected an array of answers, found {excerpt(document)}")
    found: dict[int, Answer | Unreadable] = {}
    refusal: Refusal | None = None
    for entry in cast("list[object]", document):
        envelope = Members.of(entry, "answer")
        if envelope.values.get("id") is None and "error" in envelope.values:
            refusal = _refusal_of_all(envelope)
            continue
        call_id = _asked_id(envelope, call_ids)
        found[call_id] = Unreadable("answered twice") if call_id in found else _content_or_unreadable(envelope)
    if refusal is not None and not found:
        return refusal
    missing = NotAnswered("not answered" if refusal is None else f"not answered; beside it: {refusal.message}")
    return {call_id: found.get(call_id, missing) for call_id in call_ids}


def _question(call_id: int, call: Call[object]) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": call_id, "method": call.method, "params": call.params}


def _encoded(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _content(envelope: Members) -> Answer:
    """The result or error inside an envelope, its id aside. Raises Unreadable."""
    if envelope.values.get("jsonrpc") != "2.0":
        raise Unreadable("the answer is not JSON-RPC 2.0")
    if ("result" in envelope.values) == ("error" in envelope.values):
        which = "both result and error" if "result" in envelope.values else "neither result nor error"
        raise Unreadable(f"the answer has {which}")
    if "result" in envelope.values:
        return Result(envelope.values["result"])
    error = Members.of(envelope.values["error"], "error")
    message = error.read("message", text)[:_MESSAGE_CHARACTERS_MAX]
    return Refusal(code=error.read("code", _code), message=message, data=error.values.get("data"))


def _content_or_unreadable(envelope: Members) -> Answer | Unreadable:
    try:
        return _content(envelope)
    except Unreadable as error:
        return error


def _refusal_of_all(envelope: Members) -> Refusal:
    answer = _content(envelope)
    if isinstance(answer, Result):
        raise Unreadable("one answer in reply to a batch")
    return answer


def _asked_id(envelope: Members, call_ids: Collection[int]) -> int:
    """The id of an answer in a batch. Raises Unreadable when it is none of those asked."""
    found = envelope.values.get("id")
    # Equal in type too: in Python 1 equals true and 1.0.
    if type(found) is not int or found not in call_ids:
        raise Unreadable(f"the batch holds an answer with id {_shown_id(found)}, which was not asked")
    return found


def _code(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _CODE_MAX:
        raise Unreadable(f"expected an error code, found {excerpt(value)}")
    return value


def _shown_id(found: object) -> str:
    return str(found) if type(found) is int and abs(found) < _CODE_MAX else excerpt(found)
