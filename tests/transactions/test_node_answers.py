"""What nodes say is read by a table, and nothing that they say gives signed bytes up (TX-4)."""

from __future__ import annotations

import string
from typing import get_args

import pytest
from attrs import fields_dict
from hypothesis import given
from hypothesis import strategies as st

from rpc.errors import DeadlinePassed, EndpointFault, HttpStatus, RpcError, RpcRefused, Transport
from tayho.transactions.answer_rules import ANSWER_HOLDS, CONSEQUENCES, Consequence, Next, consequence
from tayho.transactions.node_answers import Row, classify, normalised, reason_of, rows
from tayho.transactions.types import Answer, AnswerReason, Hold

HASH, OTHER_HASH = b"\xaa" * 32, b"\xbb" * 32
PLAIN_CODE = -32000
EXAMPLES = [(number, row, example) for number, row in enumerate(rows()) for example in row.examples]


def said(row: Row, example: str, client: str | None = None) -> str:
    return reason_of(PLAIN_CODE if row.code is None else row.code, example, client)


def client_of(row: Row) -> str:
    """Who is known to say it, as web3_clientVersion tells."""
    return f"{row.clients[0].capitalize()}/v1.2.3/linux-amd64"


@pytest.mark.parametrize(("number", "row", "example"), EXAMPLES, ids=[f"{n}-{e[:40]}" for n, _, e in EXAMPLES])
def test_every_example_falls_to_its_rows_class(number: int, row: Row, example: str) -> None:
    """Goal: each row does what it says, whoever asks. Method: each example as it is, in capitals, with other white
    space, wrapped by a proxy or followed by detail where the row is not for the whole message; with the client known
    and unknown. Anchored rows must not fit inside a longer sentence."""
    for client in [client_of(row), *([] if row.is_dialect else [None, "SomethingNew/v9"])]:
        variants = [example, example.upper(), example.lower(), f"  {example}\n", example.replace(" ", "  ")]
        if not any(pattern.startswith("^") for pattern in row.patterns):
            variants += [f"transaction rejected: {example}", f"{example}: address 0x1f", f"err: {example} (supplied)"]
        assert {said(row, variant, client) for variant in variants} == {row.reason}


def test_each_example_is_decided_by_its_own_row_or_one_of_its_class() -> None:
    """Goal: no row is dead behind another one. Method: for each row, at least one example that no earlier row fits."""
    for number, row in enumerate(rows()):
        code = PLAIN_CODE if row.code is None else row.code
        earlier = [one for one in rows()[:number] if one.patterns and not one.is_dialect]
        reached = [e for e in row.examples if not any(one.fits(code, normalised(e)) for one in earlier)]
        assert reached, f"row {number} ({row.reason}, {row.source}) is never reached"


def test_the_order_of_the_table_decides_what_is_told_twice() -> None:
    """Goal: the messages that fit several rows go to the right one. Method: those of the facts, and the chain of a
    contract's own text."""
    decided: dict[str, AnswerReason] = {
        "execution reverted: already known": "fatal",
        "transaction rejected: execution reverted: insufficient funds": "fatal",
        "replacement transaction underpriced": "replacement_underpriced",
        "transaction underpriced": "underpriced",
        "gas price is too low. There is another transaction with same nonce": "replacement_underpriced",
        "insertion of another transaction with the same nonce is in progress": "retry_elsewhere",
        "gas price too low: 1 wei, use at least tx.gasPrice = 2 wei": "below_base_fee",
        "gas price too low": "underpriced",
        "max fee per gas less than block base fee": "below_base_fee",
        "intrinsic gas too low: gas 20000, minimum needed 21000": "gas_too_low",
        "txpool is full": "pool_full",
        "insufficient fee": "underpriced",
        "transaction rejected: insufficient funds for gas * price + value": "insufficient_funds",
        "OwnNonceAlreadyUsed": "replacement_underpriced",
    }
    assert {message: reason_of(PLAIN_CODE, message) for message in decided} == decided


@pytest.mark.parametrize(
    "message", ["unknown transaction", "Unknown transaction: 0x1f", "unalready known", "mined late"]
)
def test_what_only_resembles_a_yes_is_none(message: str) -> None:
    """Goal: no word inside another word counts. Method: messages that contain a yes in the middle of something else."""
    assert not classify(HASH, RpcRefused(PLAIN_CODE, message)).is_out
    assert reason_of(PLAIN_CODE, message) == "ambiguous"


def test_a_clients_own_words_count_only_from_it() -> None:
    """Goal: one client's short word or bare code is no other's. Method: erigon's `mined`, besu's codes, from it, from
    another, and from a node that does not tell."""
    assert reason_of(PLAIN_CODE, "mined", "erigon/2.60/linux") == "nonce_too_low"
    assert reason_of(-32004, "no words", "besu/v24.1/linux") == "insufficient_funds"
    for client in (None, "Geth/v1.15", "", "besuxyz/v1"):
        assert reason_of(PLAIN_CODE, "mined", client) == "ambiguous"
        assert reason_of(-32004, "no words", client) == "ambiguous"
    assert reason_of(-32005, "quota", "besu/v24.1") == "gas_too_high"
    assert reason_of(-32005, "quota", "Geth/v1.15") == "retry_elsewhere"
    # Words before bare codes, from everybody.
    assert reason_of(-32005, "nonce too low", "besu/v24.1") == "nonce_too_low"


def test_a_known_clients_row_is_tried_before_the_others() -> None:
    """Goal: with the client known its own words decide. Method: a message that two rows fit, one of each client."""
    message = "already known; insufficient funds for gas * price + value"
    assert reason_of(PLAIN_CODE, message, "Geth/v1") == "already_known"
    assert reason_of(PLAIN_CODE, message, "celo/v1") == "insufficient_funds"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (HASH, ("accepted", "accepted")),
        (OTHER_HASH, ("unknown", "ambiguous")),
        (EndpointFault("node", DeadlinePassed(1, "body")), ("unknown", "ambiguous")),
        (EndpointFault("node", Transport("reset")), ("unknown", "ambiguous")),
        (EndpointFault("node", HttpStatus(500)), ("unknown", "ambiguous")),
        *[
            (EndpointFault("node", HttpStatus(status)), ("unknown", "retry_elsewhere"))
            for status in (408, 429, 502, 503)
        ],
    ],
    ids=str,
)
def test_what_is_no_answer_proves_nothing(answer: bytes | RpcError, expected: tuple[str, str]) -> None:
    """Goal: a timeout is no rejection, and another hash no acceptance. Method: each way to get no answer."""
    read = classify(HASH, answer)
    assert (read.kind, read.reason) == expected
    assert read.is_out == (answer == HASH)


@given(
    st.integers(-40_000, 1_000) | st.sampled_from([-32001, -32004, -32005, -32006, -32008, 429]),
    st.text() | st.lists(st.sampled_from([example for _, _, example in EXAMPLES]), max_size=3).map("; ".join),
    st.none() | st.sampled_from(["Geth/v1", "besu/v24", "erigon/2", "Nethermind/v1", "anvil/v1"]) | st.text(),
)
def test_no_message_whatever_gives_bytes_up_or_passes_for_a_yes(code: int, message: str, client: str | None) -> None:
    """Goal: TX-4's last sentence. Method: any words and codes of any client: the answer has a class, the class a
    consequence that keeps the bytes and names who moves on, and a yes is only what the table calls so."""
    answer = classify(HASH, RpcRefused(code, message), client)
    assert answer.reason is not None
    means = consequence(answer.reason)
    assert means.next in Next
    assert answer.is_out == (answer.reason == "already_known") == means.releases
    assert means.hold is None or not answer.is_out


@given(st.text(alphabet=string.digits + " .:-éß0x", max_size=200))
def test_an_unknown_text_is_ambiguous(message: str) -> None:
    """Goal: what we do not know stays open. Method: texts in which no row's words can be."""
    answer = classify(HASH, RpcRefused(PLAIN_CODE, message))
    assert answer == Answer("refused", f"{PLAIN_CODE}: {message}", "ambiguous")
    assert consequence("ambiguous") == CONSEQUENCES["ambiguous"]
    assert consequence("ambiguous").is_doubt


def test_every_class_has_its_consequence_and_none_of_them_discards() -> None:
    """Goal: the table of consequences is whole, and has no word for giving up. Method: the classes against it; the
    fields that a consequence has, by name; holds that a yes must be able to end."""
    assert set(CONSEQUENCES) == set(get_args(AnswerReason))
    assert {row.reason for row in rows()} == set(get_args(AnswerReason)) - {"accepted", "ambiguous"}
    assert set(fields_dict(Consequence)) == {"next", "meaning", "is_doubt", "hold", "closes_lane"}
    holds = {reason: means.hold for reason, means in CONSEQUENCES.items() if means.hold is not None}
    assert holds == {
        "insufficient_funds": "underfunded",
        "node_fee_cap": "limits",
        "gas_too_high": "limits",
        "gas_too_low": "limits",
        "terminally_stuck": "refused",
        "fatal": "refused",
    }
    assert set(holds.values()) == set(ANSWER_HOLDS) < set(get_args(Hold))
    assert [reason for reason, means in CONSEQUENCES.items() if means.closes_lane] == ["insufficient_funds"]
    assert all(means.next is Next.OPERATOR for means in CONSEQUENCES.values() if means.hold is not None)


def test_every_row_says_where_it_was_read() -> None:
    """Goal: a fact without a source is an opinion. Method: each row has a source, clients, and examples."""
    for row in rows():
        assert all(getattr(row, name) for name in ("source", "clients", "examples")), row
        assert row.patterns or row.code is not None, row
    assert len(EXAMPLES) >= 120
