"""The tally: a strict majority of the configured, by the fields that matter (RPC-5)."""

from __future__ import annotations

from itertools import permutations
from random import Random
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from rpc import methods, schemas
from rpc.ballots import Agreed, AgreedRevert, Poll, majority_of
from rpc.errors import EndpointFault, Malformed, NoQuorum, Reverted, RpcError, RpcRefused, is_passing
from rpc.methods import CallRequest
from tests.rpc import examples
from tests.rpc.blocks import block
from tests.rpc.voting import away, forgeries_of

RECEIPT = schemas.receipt(examples.receipt())
HEADER = schemas.header(examples.block())
TRANSACTION = schemas.transaction(examples.transaction(to="0x" + "22" * 20))
RECEIPT_CALL = methods.transaction_receipt(bytes.fromhex(examples.HASH[2:]))
UNREADABLE = EndpointFault("c", Malformed("receipt.status is missing"))
REFUSED = RpcRefused(-32000, "missing trie node")


def poll(answers: list[Any], call: Any = RECEIPT_CALL, voters: int | None = None) -> Any:
    names = [chr(ord("a") + number) for number in range(voters or len(answers))]
    counted = Poll[Any](call, names)
    for name, answer in zip(names, answers, strict=False):
        counted.cast(name, answer, 0.1)
    return counted


@pytest.mark.parametrize(("configured", "needed"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (6, 4), (7, 4)])
def test_a_majority_is_strict(configured: int, needed: int) -> None:
    """Goal: no two majorities exist side by side. Method: the table; half is never enough."""
    assert majority_of(configured) == needed
    assert 2 * needed > configured
    with pytest.raises(ValueError, match="at least one"):
        majority_of(0)


@pytest.mark.parametrize("silent", [away("c"), UNREADABLE, REFUSED], ids=["away", "unreadable", "refused"])
def test_one_of_three_may_be_silent_and_two_may_not(silent: RpcError) -> None:
    """Goal: the majority is of the configured, not of those that answered. Method: one and two without an answer."""
    verdict = poll([RECEIPT, RECEIPT, silent]).verdict()
    assert isinstance(verdict, Agreed)
    assert (verdict.value, verdict.dissenters) == (RECEIPT, ())
    assert isinstance(poll([RECEIPT, silent, silent]).verdict(), NoQuorum)
    assert isinstance(poll([RECEIPT], voters=3).verdict(), NoQuorum)


def test_errors_that_agree_are_no_truth_of_a_receipt() -> None:
    """Goal: what is refused everywhere is not decided. Method: the same refusal, and the same revert, three times."""
    for error in (REFUSED, Reverted(3, "execution reverted"), UNREADABLE):
        assert isinstance(poll([error] * 3).verdict(), NoQuorum)


WHOLE = block(Random(1), 1).header
LEFT_OUT = evolve(WHOLE, mix_hash=None, nonce=None)
HEADER_CALL = methods.block_by_number(WHOLE.number)


@pytest.mark.parametrize("order", list(permutations([WHOLE, LEFT_OUT, evolve(WHOLE, difficulty=None)])))
def test_a_header_without_proof_of_work_is_the_same_header(order: tuple[Any, ...]) -> None:
    """Goal: an honest node that leaves out what the hash settles anyway is no dissenter. Method: a whole header and two
    that leave out other fields of it, in every order; the agreed one is whole."""
    verdict = poll(list(order), HEADER_CALL).verdict()
    assert isinstance(verdict, Agreed)
    assert (verdict.value, verdict.dissenters) == (WHOLE, ())


def test_what_a_header_leaves_out_hides_no_lie() -> None:
    """Goal: only what the hash settles may be left out. Method: headers that leave out a field and forge another, of
    every name; one that leaves out and one that tells a false one; and two that nobody can complete."""
    for name, forged in forgeries_of(LEFT_OUT).items():
        if name in ("mix_hash", "nonce"):
            continue
        verdict = poll([forged, WHOLE, WHOLE], HEADER_CALL).verdict()
        assert (verdict.value, verdict.dissenters) == (WHOLE, ("a",)), name
        assert isinstance(poll([forged, WHOLE, away("c")], HEADER_CALL).verdict(), NoQuorum), name
    false = evolve(WHOLE, mix_hash=b"\1" * 32)
    verdict = poll([false, LEFT_OUT, WHOLE], HEADER_CALL).verdict()
    assert (verdict.value, verdict.dissenters) == (WHOLE, ("a",))
    assert isinstance(poll([false, LEFT_OUT, away("c")], HEADER_CALL).verdict(), NoQuorum)
    assert poll([false, LEFT_OUT, LEFT_OUT], HEADER_CALL).verdict().value == LEFT_OUT


def test_null_is_a_vote() -> None:
    """Goal: two that have no receipt outvote one that has. Method: both ways around; the other one is named."""
    verdict = poll([None, RECEIPT, None]).verdict()
    assert isinstance(verdict, Agreed)
    assert (verdict.value, verdict.dissenters) == (None, ("b",))
    assert poll([RECEIPT, None, RECEIPT]).verdict().dissenters == ("b",)


def test_a_voter_has_one_vote_however_often_it_is_asked() -> None:
    """Goal: a retry buys nobody a second vote. Method: one voter three times, with an error and then an answer too."""
    counted = poll([], voters=3)
    for _ in range(3):
        counted.cast("a", RECEIPT, 0.1)
    assert not counted.is_decided
    counted.cast("b", UNREADABLE, 0.1)
    counted.cast("b", RECEIPT, 0.1)
    assert isinstance(counted.verdict(), NoQuorum)
    with pytest.raises(ValueError, match="no voter"):
        counted.cast("d", RECEIPT, 0.1)


def test_an_agreed_revert_is_the_truth_of_a_call() -> None:
    """Goal: eth_call may be agreed to revert. Method: two reverts of three; then with other data, and as refusals."""
    call = methods.call(CallRequest(b"\1" * 20, b"\2" * 20), "latest")
    revert = Reverted(3, "execution reverted", data=b"\1")
    elsewhere = Reverted(-32603, "Error: reverted", data=b"\1")
    verdict = poll([revert, elsewhere, b""], call).verdict()
    assert isinstance(verdict, AgreedRevert)
    assert (verdict.data, verdict.dissenters) == (b"\1", ("c",))
    assert isinstance(poll([revert, evolve(revert, data=b"\2"), b""], call).verdict(), NoQuorum)
    assert isinstance(poll([REFUSED, REFUSED, b""], call).verdict(), NoQuorum)


SILENT_ON = {"contract_address", "gas_price_wei"}
FORGED = [
    pytest.param(honest, forged, id=f"{type(honest).__name__}-{name}")
    for honest in (RECEIPT, HEADER, TRANSACTION)
    for name, forged in forgeries_of(honest).items()
]


@pytest.mark.parametrize(("honest", "forged"), FORGED)
def test_a_lie_in_any_field_is_outvoted_and_named(honest: Any, forged: Any) -> None:
    """Goal: every field is voted on, but those that honest nodes tell differently, and these are not passed on.
    Method: each field of each value forged in turn, by one of three."""
    verdict = poll([forged, honest, honest]).verdict()
    assert isinstance(verdict, Agreed)
    changed = {name for name in type(honest).__slots__ if getattr(honest, name, 0) != getattr(forged, name, 0)}
    assert verdict.dissenters == (() if changed <= SILENT_ON else ("a",))
    assert poll([honest, honest, honest]).verdict().value == verdict.value


@pytest.mark.parametrize(
    "change",
    [{"address": b"\3" * 20}, {"data": b""}, {"topics": ()}, {"log_index": 9}, {"removed": True}],
    ids=["address", "data", "topics", "index", "removed"],
)
def test_a_lie_in_any_field_of_an_event_is_outvoted(change: dict[str, Any]) -> None:
    """Goal: money is in events. Method: one event of the receipt forged, by one of three."""
    forged = evolve(RECEIPT, logs=(evolve(RECEIPT.logs[0], **change), *RECEIPT.logs[1:]))
    verdict = poll([RECEIPT, forged, RECEIPT]).verdict()
    assert (verdict.value, verdict.dissenters) == (RECEIPT, ("b",))


@given(answers=st.lists(st.sampled_from([1, 2, 3, None, REFUSED]), min_size=1, max_size=7), data=st.data())
def test_a_decision_never_depends_on_who_was_faster(answers: list[Any], data: st.DataObject) -> None:
    """Goal: no order of arrival changes what is decided, and a decision that fell stands. Method: any answers in any
    order; from the moment that the poll says decided, later votes change neither value nor refusal."""
    order = data.draw(st.permutations(range(len(answers))))
    names = [str(number) for number in range(len(answers))]
    call = methods.transaction_count(b"\1" * 20, 1)
    counted = Poll[Any](call, names)
    fell: Any = None
    for number in order:
        counted.cast(names[number], answers[number], 0.1)
        if fell is None and counted.is_decided:
            fell = counted.verdict()
    final = counted.verdict()
    assert counted.is_decided
    assert type(fell) is type(final)
    best = max((answers.count(one) for one in (1, 2, 3, None)), default=0)
    assert isinstance(final, Agreed) == (2 * best > len(answers))
    if isinstance(final, Agreed):
        assert (fell.value, answers.count(final.value)) == (final.value, best)


def test_a_refusal_names_every_voter_and_may_pass() -> None:
    """Goal: a person reads who said what; the question may be asked again. Method: three different fates."""
    verdict = poll([RECEIPT, None], voters=3).verdict()
    assert isinstance(verdict, NoQuorum)
    assert is_passing(verdict)
    assert str(verdict).startswith("eth_getTransactionReceipt: 2 of 3 voters must agree, and they do not: a: Receipt(")
    assert str(verdict).endswith("b: None; c: no answer in time")
    assert len(str(verdict)) < 800
