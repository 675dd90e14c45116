"""Allocation, persistence and abandonment under races (TX-1, TX-2, I1, I2, I4, I5)."""

from __future__ import annotations

from collections import Counter

import pytest
import trio

from storage.errors import Conflict, Refused
from tayho.kernel.jobs import StaleAttempt
from tayho.transactions.errors import NoLaneOpen
from tayho.transactions.lanes import lanes_of_pool
from tayho.transactions.types import Allocation, Lineage, Persistence, SignedMember, WouldRevert
from tests.invariants import check_invariants
from tests.transactions.conftest import SIGNERS, Engine, any_call


async def _allocate(engine: Engine, count: int) -> list[Lineage]:
    attempts = await engine.attempts(count)
    results = await engine.journal.allocate_many([Allocation(attempt, any_call()) for attempt in attempts])
    return [result for result in results if isinstance(result, Lineage)]


async def test_two_replicas_allocating_at_once_never_share_or_skip_a_nonce(engine: Engine) -> None:
    """Goal: I1 and I5 under real concurrency. Method: forty transactions of one to three allocations race for two lanes
    of room for eight; nonces are unique, contiguous and shared by turns."""
    attempts = await engine.attempts(40)
    lineages: list[Lineage] = []
    refused: list[Exception] = []

    async def allocate(number: int) -> None:
        batch = [Allocation(attempt, any_call()) for attempt in attempts[number : number + 2]]
        for result in await engine.journal.allocate_many(batch):
            (lineages if isinstance(result, Lineage) else refused).append(result)  # pyright: ignore[reportArgumentType]

    async with trio.open_nursery() as racers:
        for number in range(0, 40, 2):
            racers.start_soon(allocate, number)
    assert len(lineages) == len(SIGNERS) * engine.settings.lane_depth
    assert {type(error) for error in refused} == {NoLaneOpen}
    assert set(Counter(lineage.signer for lineage in lineages).values()) == {engine.settings.lane_depth}
    assert len({(lineage.signer, lineage.nonce) for lineage in lineages}) == len(lineages)
    await check_invariants(engine.plane.database, engine.node, engine.contract)


async def test_a_stale_attempt_gets_no_nonce_and_its_neighbours_do(engine: Engine) -> None:
    """Goal: one stale attempt of a batch harms nobody. Method: the middle one of three was taken over."""
    attempts = await engine.attempts(3)
    await engine.plane.begin(attempts[1].job_id, await engine.plane.worker())
    results = await engine.journal.allocate_many([Allocation(attempt, any_call()) for attempt in attempts])
    assert [type(result) for result in results] == [Lineage, StaleAttempt, Lineage]
    await check_invariants(engine.plane.database, engine.node, engine.contract)


async def test_one_job_never_gets_a_second_live_lineage(engine: Engine) -> None:
    """Goal: I2 by constraint. Method: allocate twice through the fence, then behind its back."""
    attempts = await engine.attempts(1)
    (first,) = await engine.journal.allocate_many([Allocation(attempts[0], any_call())])
    (second,) = await engine.journal.allocate_many([Allocation(attempts[0], any_call(1))])
    assert isinstance(first, Lineage)
    assert isinstance(second, StaleAttempt)
    with pytest.raises(Conflict) as conflict:
        async with engine.plane.database.connection() as connection:
            await connection.execute(
                "INSERT INTO transactions.lineages (lineage_id, purpose, job_id, chain_id, signer, nonce, call_hash,"
                " environment, role, to_address, value_wei, call_data, state) SELECT gen_random_uuid(), purpose, "
                "job_id,"
                " chain_id, signer, nonce + 1, call_hash, environment, role, to_address, 0, '', 'allocated'"
                " FROM transactions.lineages"
            )
    assert conflict.value.constraint == "lineages_job"


async def test_two_lineages_never_hold_one_nonce(engine: Engine) -> None:
    """Goal: I1 by constraint. Method: a filler at a nonce that is taken."""
    await _allocate(engine, 1)
    with pytest.raises(Conflict) as conflict:
        async with engine.plane.database.connection() as connection:
            await connection.execute(
                "INSERT INTO transactions.lineages (lineage_id, purpose, chain_id, signer, nonce, call_hash,"
                " environment, role, to_address, value_wei, call_data, state) SELECT gen_random_uuid(), 'filler',"
                " chain_id, signer, nonce, call_hash, environment, role, signer, 0, '', 'allocated'"
                " FROM transactions.lineages"
            )
    assert conflict.value.constraint == "lineages_nonce"


async def test_two_workers_signing_one_lineage_persist_one_member(engine: Engine) -> None:
    """Goal: one nonce, one set of signed bytes. Method: the same lineage is signed twice and persisted in a race by its
    current attempt and by one that was taken over."""
    attempts = await engine.attempts(1)
    (lineage,) = await engine.journal.allocate_many([Allocation(attempts[0], any_call())])
    assert isinstance(lineage, Lineage)
    begun = await engine.plane.begin(attempts[0].job_id, await engine.plane.worker())
    assert begun.attempt is not None
    members = [await engine.executor.sign(lineage) for _ in range(2)]
    results: list[object] = []

    async def persist(number: int) -> None:
        member = members[number]
        assert isinstance(member, SignedMember)
        attempt = (attempts[0], begun.attempt)[number]
        results.extend(await engine.journal.persist_many([Persistence(attempt, member)]))

    async with trio.open_nursery() as racers:
        racers.start_soon(persist, 0)
        racers.start_soon(persist, 1)
    assert sorted(type(result).__name__ for result in results) == ["NoneType", "StaleAttempt"]
    async with engine.plane.database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM transactions.members") == 1


async def test_an_abandoned_tail_goes_back_to_the_fence(engine: Engine) -> None:
    """Goal: TX-3, I5. Method: abandon the newest nonce of a lane; the next allocation there takes it again."""
    attempts = await engine.attempts(1)
    (lineage,) = await engine.journal.allocate_many([Allocation(attempts[0], any_call())])
    assert isinstance(lineage, Lineage)
    await engine.journal.abandon_unsigned(attempts[0], lineage, {"reason": "not wanted"})
    lanes = await lanes_of_pool(engine.plane.database, engine.settings)
    assert {lane.signer: lane.next_nonce for lane in lanes}[lineage.signer] == lineage.nonce
    assert await engine.plane.state(attempts[0].job_id) == "not_actionable"
    await check_invariants(engine.plane.database, engine.node, engine.contract)


async def test_an_abandoned_nonce_below_the_tail_is_filled_and_the_lane_goes_on(engine: Engine) -> None:
    """Goal: a lane never gaps. Method: abandon the older of two nonces of one lane; the reconciler signs and sends a
    filler in its place, and the younger one's transaction is mined behind it."""
    attempts = await engine.attempts(3)
    results = await engine.journal.allocate_many([Allocation(attempt, any_call()) for attempt in attempts])
    first, _, third = results
    assert isinstance(first, Lineage)
    assert isinstance(third, Lineage)
    assert (third.signer, third.nonce) == (first.signer, first.nonce + 1)
    await engine.journal.abandon_unsigned(attempts[0], first, {"reason": "not wanted"})
    await check_invariants(engine.plane.database, engine.node, engine.contract)
    signed = await engine.executor.sign(third)
    assert not isinstance(signed, WouldRevert)
    assert await engine.journal.persist_many([Persistence(attempts[2], signed)]) == [None]
    await engine.tick_and_mine(5)
    assert await engine.state(third.lineage_id) == "mined"
    async with engine.plane.database.connection() as connection:
        filler = await connection.fetchrow("SELECT state, nonce FROM transactions.lineages WHERE purpose = 'filler'")
    assert filler is not None
    assert (filler["state"], filler["nonce"]) == ("mined", first.nonce)
    assert await engine.plane.state(attempts[2].job_id) == "completed"


async def test_a_stale_attempt_cannot_abandon(engine: Engine) -> None:
    """Goal: I6 for the release of a nonce. Method: the attempt was taken over."""
    attempts = await engine.attempts(1)
    (lineage,) = await engine.journal.allocate_many([Allocation(attempts[0], any_call())])
    assert isinstance(lineage, Lineage)
    await engine.plane.begin(attempts[0].job_id, await engine.plane.worker())
    with pytest.raises(StaleAttempt):
        await engine.journal.abandon_unsigned(attempts[0], lineage, {"reason": "late"})
    assert await engine.state(lineage.lineage_id) == "allocated"


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE transactions.lineages SET nonce = nonce + 1",
        "UPDATE transactions.lineages SET call_data = 'x'",
        "UPDATE transactions.lineages SET signer = decode(repeat('00', 20), 'hex')",
        "UPDATE transactions.members SET max_fee_per_gas_wei = 1",
        "UPDATE transactions.members SET call_hash = sha256('x')",
        "DELETE FROM transactions.members",
        "DELETE FROM transactions.lineages",
        "UPDATE transactions.broadcasts SET answer = 'refused'",
        "DELETE FROM transactions.broadcasts",
    ],
)
async def test_the_journal_is_immutable_in_the_database(engine: Engine, change: str) -> None:
    """Goal: no statement, right or wrong, rewrites what was promised or signed. Method: try each on a sent lineage."""
    attempts = await engine.attempts(1)
    (lineage,) = await engine.journal.allocate_many([Allocation(attempts[0], any_call())])
    assert isinstance(lineage, Lineage)
    signed = await engine.executor.sign(lineage)
    assert not isinstance(signed, WouldRevert)
    await engine.journal.persist_many([Persistence(attempts[0], signed)])
    await engine.reconciler.tick()
    with pytest.raises(Refused):
        async with engine.plane.database.connection() as connection:
            await connection.execute(change)


SECOND_RECEIPT = (
    "INSERT INTO transactions.receipts (tx_hash, block_hash, block_number, transaction_index, succeeded, gas_used,"
    " effective_gas_price_wei, head_block_number) SELECT tx_hash, sha256('another block'), block_number,"
    " transaction_index, succeeded, gas_used, effective_gas_price_wei, head_block_number FROM transactions.receipts"
)
SECOND_MEMBER = (
    "INSERT INTO transactions.members (tx_hash, lineage_id, chain_id, signer, nonce, call_hash, member_number,"
    " gas_limit, max_fee_per_gas_wei, max_priority_fee_per_gas_wei, key_id, cipher_nonce, ciphertext, state)"
    " SELECT sha256('another'), lineage_id, chain_id, signer, nonce, call_hash, 2, gas_limit, max_fee_per_gas_wei,"
    " max_priority_fee_per_gas_wei, key_id, '\\x000000000000000000000000', ciphertext, 'signed'"
    " FROM transactions.members"
)


@pytest.mark.parametrize(
    ("statements", "refusal", "constraint"),
    [
        (["UPDATE transactions.receipts SET succeeded = false"], Refused, "receipts_immutable"),
        (["DELETE FROM transactions.receipts"], Refused, "receipts_kept"),
        (["UPDATE transactions.lineages SET state_reason = 'x'"], Refused, "lineages_terminal_immutable"),
        (["UPDATE coordination.attempts SET detail = '1'"], Refused, "attempts_ended_immutable"),
        (["UPDATE transactions.members SET ciphertext = 'a longer ciphertext'"], Refused, "members_identity_immutable"),
        ([SECOND_RECEIPT], Conflict, "receipts_one_canonical"),
        (
            [SECOND_MEMBER, "UPDATE transactions.members SET state = 'mined' WHERE member_number = 2"],
            Conflict,
            "members_one_mined",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_the_chain_decided_stands_in_the_database(
    engine: Engine, statements: list[str], refusal: type[Refused] | type[Conflict], constraint: str
) -> None:
    """Goal: a final lineage keeps one mined member, one canonical receipt and its history, whoever writes (I3, I12).
    Method: finalise one, then try each change."""
    attempts = await engine.attempts(1)
    (lineage,) = await engine.journal.allocate_many([Allocation(attempts[0], any_call())])
    assert isinstance(lineage, Lineage)
    signed = await engine.executor.sign(lineage)
    assert not isinstance(signed, WouldRevert)
    await engine.journal.persist_many([Persistence(attempts[0], signed)])
    await engine.tick_and_mine(3)
    assert await engine.state(lineage.lineage_id) == "mined"
    with pytest.raises(refusal) as refused:
        async with engine.plane.database.transaction() as tx:
            for statement in statements:
                await tx.execute(statement)
    assert refused.value.constraint == constraint
