"""Answers are matched to questions by id and type, and everything ambiguous is refused."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpc import envelopes, methods
from rpc.envelopes import NotAnswered, Refusal, Result
from rpc.quantities import Unreadable


def envelope(call_id: object, **content: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": call_id, **(content or {"result": "0x1"})}


ERROR = {"code": -32000, "message": "no"}


def test_requests_are_json_rpc() -> None:
    """Goal: nodes understand us. Method: the bytes of one and of two questions."""
    call = methods.balance(b"\x11" * 20, 5)
    one = {"jsonrpc": "2.0", "id": 3, "method": "eth_getBalance", "params": ["0x" + "11" * 20, "0x5"]}
    assert json.loads(envelopes.single_request(3, call)) == one
    assert json.loads(envelopes.batch_request([(3, call), (4, call)])) == [one, one | {"id": 4}]


def test_a_result_and_an_error_are_answers() -> None:
    """Goal: honest answers pass. Method: a result, a null result, an error with data, an error without our id."""
    assert envelopes.read_answer(envelope(7), 7) == Result("0x1")
    assert envelopes.read_answer(envelope(7, result=None), 7) == Result(None)
    assert envelopes.read_answer(envelope(7, error=ERROR | {"data": "0x"}), 7) == Refusal(-32000, "no", "0x")
    assert envelopes.read_answer(envelope(None, error=ERROR), 7) == Refusal(-32000, "no", None)
    assert envelopes.read_answer({"jsonrpc": "2.0", "error": ERROR}, 7) == Refusal(-32000, "no", None)


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (envelope(8), "carries id 8"),
        (envelope("7"), "carries id '7'"),
        (envelope(7.0), "carries id"),
        (envelope(True), "carries id true"),
        (envelope(None), "carries id null"),
        ({"jsonrpc": "2.0", "result": "0x1"}, "carries id null"),
        (envelope(8, error=ERROR), "carries id 8"),
        (envelope(7, result="0x1", error=ERROR), "both result and error"),
        (envelope(7, result=None, error=ERROR), "both result and error"),
        (envelope(7, result="0x1", error=None), "both result and error"),
        ({"jsonrpc": "2.0", "id": 7}, "neither result nor error"),
        ({"id": 7, "result": "0x1"}, "not JSON-RPC 2.0"),
        ({"jsonrpc": "1.0", "id": 7, "result": "0x1"}, "not JSON-RPC 2.0"),
        ({"jsonrpc": 2.0, "id": 7, "result": "0x1"}, "not JSON-RPC 2.0"),
        (envelope(7, error={"message": "no"}), "error.code is missing"),
        (envelope(7, error={"code": "3", "message": "no"}), "error.code"),
        (envelope(7, error={"code": True, "message": "no"}), "error.code"),
        (envelope(7, error={"code": 10**30, "message": "no"}), "error.code"),
        (envelope(7, error={"code": 3}), "error.message is missing"),
        (envelope(7, error={"code": 3, "message": None}), "error.message"),
        (envelope(7, error="no"), "error: expected an object"),
        (envelope(7, error=None), "error: expected an object"),
        ([envelope(7)], "expected an object, found an array"),
        ("0x1", "expected an object"),
        (None, "expected an object"),
    ],
)
def test_ambiguous_answers_are_refused(document: object, why: str) -> None:
    """Goal: RPC-8, id mismatch and missing or mistyped members. Method: one example of each, with its reason."""
    with pytest.raises(Unreadable, match=why):
        envelopes.read_answer(document, 7)


def test_a_batch_may_come_in_any_order() -> None:
    """Goal: answers find their questions (ethers#3431). Method: reversed order, an error among them."""
    document = [envelope(3, error=ERROR), envelope(2, result="b"), envelope(1, result="a")]
    assert envelopes.read_batch(document, [1, 2, 3]) == {
        1: Result("a"),
        2: Result("b"),
        3: Refusal(-32000, "no", None),
    }


def test_a_spoilt_answer_spoils_only_its_question() -> None:
    """Goal: one bad entry does not cost the others. Method: missing, doubled and malformed entries."""
    document = [envelope(1), envelope(2), envelope(2), envelope(3, result="x", error=ERROR)]
    answers = envelopes.read_batch(document, [1, 2, 3, 4])
    assert isinstance(answers, dict)
    assert answers[1] == Result("0x1")
    assert str(answers[2]) == "answered twice"
    assert "both result and error" in str(answers[3])
    assert isinstance(answers[4], NotAnswered)


def test_a_third_copy_does_not_undo_the_doubt() -> None:
    """Goal: answered thrice is not answered once. Method: three entries of one id."""
    answers = envelopes.read_batch([envelope(1), envelope(1), envelope(1), envelope(2)], [1, 2])
    assert isinstance(answers, dict)
    assert isinstance(answers[1], Unreadable)


def test_an_error_without_an_id_explains_what_is_missing() -> None:
    """Goal: the reason is not lost. Method: one answer, and an unattributed error beside it."""
    answers = envelopes.read_batch([envelope(1), envelope(None, error=ERROR)], [1, 2])
    assert isinstance(answers, dict)
    assert answers[1] == Result("0x1")
    assert "no" in str(answers[2])


def test_one_error_can_refuse_the_whole_batch() -> None:
    """Goal: nodes refuse batches in one object or one entry. Method: both forms (erigon#17245)."""
    refusal = Refusal(-32000, "no", None)
    assert envelopes.read_batch(envelope(None, error=ERROR), [1, 2]) == refusal
    assert envelopes.read_batch([envelope(None, error=ERROR)], [1, 2]) == refusal


@pytest.mark.parametrize(
    "document",
    [
        [envelope(1), envelope(9)],
        [envelope(1), envelope("2")],
        [envelope(1), envelope(None)],
        [envelope(1), envelope(True)],
        [envelope(1), "0x1"],
        [envelope(1), None],
        envelope(1),
        envelope(1, result=[envelope(1), envelope(2)]),
        "0x1",
        None,
        12,
    ],
)
def test_a_batch_that_answers_other_questions_is_worth_nothing(document: object) -> None:
    """Goal: a foreign id casts doubt on every answer. Method: ids not asked, no array, a lone value."""
    with pytest.raises(Unreadable):
        envelopes.read_batch(document, [1, 2])


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["jsonrpc", "id", "result", "error", "code", "message"]),
            inner | st.just("2.0") | st.just(1),
        )
    ),
)


@given(ANYTHING)
def test_no_document_raises_anything_but_unreadable(document: object) -> None:
    """Goal: nothing raw escapes. Method: arbitrary JSON made of an envelope's own members."""
    for read in (lambda: envelopes.read_answer(document, 1), lambda: envelopes.read_batch(document, [1, 2])):
        with suppress(Unreadable):
            read()
