"""What nobody may sign takes no nonce, and a nonce that nobody may use is given back (TX-3, TX-11, DLV-10)."""

from __future__ import annotations

import os
from functools import partial
from typing import cast

import pytest
import trio

from rpc.reads import Call as Question
from storage.errors import Refused
from tayho.kernel.address import Address
from tayho.kernel.jobs import Attempt, Ended, Outcome, RequestRefused
from tayho.kinds import Call
from tayho.transactions.executor import execute_or_postpone
from tayho.transactions.lanes import lanes_of_pool
from tayho.transactions.types import Allocation, Lineage
from tests.coordination.test_worker import at_work
from tests.invariants import check_invariants
from tests.transactions.conftest import Engine, any_call
from tests.transactions.test_executor import Kind
from tests.waiting import until

ANYWHERE = Address(b"\x77" * 20)
SINK = Address(bytes(20))
# Writes one byte three megabytes into the memory: 17.4 million gas (Yellow Paper, appendix G), above EIP-7825's cap.
BURNS_GAS = bytes.fromhex("6000622dc6c05200")


async def _execute(engine: Engine, attempt: Attempt, call: Call) -> Outcome:
    return await engine.executor.execute(Kind(call), await engine.job(attempt), attempt)


async def _fences(engine: Engine) -> dict[Address, int]:
    return {lane.signer: lane.next_nonce for lane in await lanes_of_pool(engine.plane.database, engine.settings)}


async def _lineages(engine: Engine) -> list[tuple[str, str]]:
    async with engine.plane.database.connection() as connection:
        rows = await connection.fetch("SELECT purpose, state FROM transactions.lineages ORDER BY allocated_at, purpose")
    return [(row["purpose"], row["state"]) for row in rows]


async def _install(engine: Engine, code: bytes) -> Address:
    """A contract with this code, at an address of its own."""
    address = Address(os.urandom(20))
    await _set_code(engine, address, code)
    return address


async def _set_code(engine: Engine, address: Address, code: bytes) -> None:
    parameters = (address.checksummed, f"0x{code.hex()}")
    await engine.node.ask(Question("anvil_setCode", parameters, lambda _: None, is_write=True))


async def _allocated(engine: Engine, attempts: list[Attempt], calls: list[Call]) -> list[Lineage]:
    """Allocate as one group, as an earlier release with other rules may have done."""
    allocations = [Allocation(attempt, call) for attempt, call in zip(attempts, calls, strict=True)]
    lineages = await engine.journal.allocate_many(allocations)
    assert all(isinstance(lineage, Lineage) for lineage in lineages)
    return cast("list[Lineage]", lineages)


UNSIGNABLE = {
    "a sink": Call(SINK, b""),
    "a value of 257 bits": Call(ANYWHERE, b"", 2**256),
    "a value too large for any column": Call(ANYWHERE, b"", 10**90),
    "a negative value": Call(ANYWHERE, b"", -1),
    "a value that is no integer": Call(ANYWHERE, b"", True),
    "data above 128 KiB": Call(ANYWHERE, bytes(128 * 1024 + 1)),
    "data that are no bytes": Call(ANYWHERE, cast("bytes", "0x00")),
}


@pytest.mark.parametrize("call", UNSIGNABLE.values(), ids=UNSIGNABLE.keys())
async def test_a_call_that_nobody_may_sign_takes_no_nonce(engine: Engine, call: Call) -> None:
    """Goal: a nonce once taken must be used, so it is not taken for this. Method: execute each kind of call that
    breaks the signing policy; no fence moved, and the job owns nothing."""
    (attempt,) = await engine.attempts(1)
    before = await _fences(engine)
    with pytest.raises(RequestRefused):
        await _execute(engine, attempt, call)
    assert await _fences(engine) == before
    assert await _lineages(engine) == []
    assert not (await engine.job(attempt)).has_live_lineage


async def test_a_call_that_needs_more_gas_than_a_transaction_may_have_takes_no_nonce(engine: Engine) -> None:
    """Goal: the same for what only a simulation can tell. Method: a contract that burns more than 2**24 gas."""
    (attempt,) = await engine.attempts(1)
    before = await _fences(engine)
    with pytest.raises(RequestRefused, match="gas_limit"):
        await _execute(engine, attempt, Call(await _install(engine, BURNS_GAS), b""))
    assert await _fences(engine) == before
    assert await _lineages(engine) == []


async def test_an_unsignable_job_is_quarantined_at_its_first_attempt(engine: Engine) -> None:
    """Goal: a person sees the rule that was broken; nothing is tried twice. Method: such a job through a worker."""
    plane = engine.plane
    job_id = await plane.enqueue("unsignable")

    async def quarantined() -> bool:
        return await plane.state(job_id) == "quarantined"

    async with at_work(plane, partial(execute_or_postpone, engine.executor, Kind(Call(SINK, b"")))):
        await until(quarantined, seconds=10, what="the job to be quarantined")
    record = await plane.coordination.inspect(job_id)
    assert record is not None
    assert [attempt.state for attempt in record.attempts] == ["quarantined"]
    assert isinstance(record.last_error, dict)
    assert "the zero address" in str(record.last_error["message"])


async def test_a_refused_tail_is_released_and_taken_by_the_next(engine: Engine) -> None:
    """Goal: a lineage that custody refuses blocks no lane. Method: one was allocated for a sink; its attempt gives it
    up, and the nonce is whole again."""
    before = await _fences(engine)
    attempts = await engine.attempts(3)
    await _allocated(engine, attempts[:1], [Call(SINK, b"")])
    assert await _execute(engine, attempts[0], Call(SINK, b"")) == Ended()
    assert await engine.plane.state(attempts[0].job_id) == "not_actionable"
    assert await _fences(engine) == before
    for attempt in attempts[1:]:
        assert await _execute(engine, attempt, any_call()) == Ended()
    await engine.tick_and_mine(3)
    assert {await engine.plane.state(attempt.job_id) for attempt in attempts[1:]} == {"completed"}
    assert [state for _, state in await _lineages(engine)] == ["abandoned", "mined", "mined"]
    await check_invariants(engine.plane.database, engine.node, engine.contract)


async def test_a_refused_nonce_below_the_tail_is_filled_and_the_lane_goes_on(engine: Engine) -> None:
    """Goal: the same in the middle of a lane. Method: after its allocation a contract begins to burn more gas than a
    transaction may have; the younger lineage of the same lane is mined behind the filler."""
    contract = await _install(engine, b"\x00")
    attempts = await engine.attempts(3)
    first, _, third = await _allocated(engine, attempts, [Call(contract, b""), any_call(1), any_call(2)])
    assert (third.signer, third.nonce) == (first.signer, first.nonce + 1)
    await _set_code(engine, contract, BURNS_GAS)
    assert await _execute(engine, attempts[0], Call(contract, b"")) == Ended()
    assert await engine.plane.state(attempts[0].job_id) == "not_actionable"
    for attempt in attempts[1:]:
        assert await _execute(engine, attempt, any_call()) == Ended()
    await engine.tick_and_mine(4)
    assert {await engine.plane.state(attempt.job_id) for attempt in attempts[1:]} == {"completed"}
    assert sorted(await _lineages(engine)) == [
        ("call", "abandoned"),
        ("call", "mined"),
        ("call", "mined"),
        ("filler", "mined"),
    ]
    await check_invariants(engine.plane.database, engine.node, engine.contract)


async def test_one_poisoned_allocation_fails_alone(engine: Engine) -> None:
    """Goal: a group commit is not only as good as its worst item. Method: three allocations in one group, of which the
    database refuses the middle one; the others get nonces without a gap, and no job is held that owns none."""
    attempts = await engine.attempts(3)
    allocations = engine.executor._allocations  # pyright: ignore[reportPrivateUsage]
    answers: dict[int, Lineage | Exception] = {}

    async def allocate(number: int, call: Call) -> None:
        try:
            answers[number] = await allocations.submit(Allocation(attempts[number], call))
        except Refused as error:
            answers[number] = error

    async with trio.open_nursery() as callers:
        for number, call in enumerate([any_call(0), Call(ANYWHERE, bytes(128 * 1024 + 1)), any_call(2)]):
            callers.start_soon(allocate, number, call)
    assert [type(answers[number]) for number in range(3)] == [Lineage, Refused, Lineage]
    assert [(await engine.job(attempt)).has_live_lineage for attempt in attempts] == [True, False, True]
    await check_invariants(engine.plane.database, engine.node, engine.contract)
