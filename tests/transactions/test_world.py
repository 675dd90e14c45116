"""A wrong world is found before anything is sent, and an operator says how it goes on (TX-14)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
import trio
from attrs import evolve

from nursery.drain import Drain
from rpc import methods
from rpc.errors import EndpointFault, NoQuorum, Transport
from rpc.member import Member
from tayho.api.process import halt_reasons
from tayho.coordination.workers import WorkerRow
from tayho.kernel.ids import new_id
from tayho.kernel.jobs import Attempt, Ended, Outcome, Postponed
from tayho.transactions.errors import NothingHalted, WrongRemedy
from tayho.transactions.module import Transactions, WorldActs
from tayho.transactions.types import Allocation, Lineage
from tayho.transactions.world import World
from tayho.voters import truth_of
from tests.coordination.conftest import CHAIN_ID, ENVIRONMENT, ROLE
from tests.invariants import check_invariants
from tests.services.chain import LocalChain, local_chain
from tests.transactions.conftest import SIGNERS, Engine, any_call
from tests.transactions.test_executor import Kind
from tests.transactions.test_reconciler import Blind
from tests.transactions.watching import findings, lanes, mine, rows, states, taken_over, told, use_elsewhere
from tests.waiting import until

FIRST, SECOND = sorted(SIGNERS)


@pytest.fixture
def chain() -> Iterator[LocalChain]:
    """A node of this test's own, whose chain it may end."""
    with local_chain(block_seconds=None) as running:
        yield running


@asynccontextmanager
async def _replica(engine: Engine, voter: Member | None = None) -> AsyncIterator[Transactions]:
    """A process's engine over the same database and node, its group commits running, its ticks by hand."""
    transactions = Transactions(
        engine.plane.database,
        engine.plane.coordination,
        engine.executor._custody,  # pyright: ignore[reportPrivateUsage]
        engine.node,
        truth_of([voter or engine.node]),
        engine.node,
        "node",
        evolve(engine.settings, reorg_lookback_blocks=2),
        SIGNERS,
    )
    transactions._world._proof_seconds = 0.5  # pyright: ignore[reportPrivateUsage]
    async with trio.open_nursery() as tasks:
        tasks.start_soon(transactions._executor.run)  # pyright: ignore[reportPrivateUsage]
        yield transactions
        tasks.cancel_scope.cancel()


async def _tick(transactions: Transactions, engine: Engine, times: int = 1) -> None:
    for _ in range(times):
        await transactions._tick()  # pyright: ignore[reportPrivateUsage]
        await mine(engine)


async def _execute(transactions: Transactions, engine: Engine, attempt: Attempt) -> Outcome:
    return await transactions.execute(Kind(any_call()), await engine.job(attempt), attempt)


def _acts(engine: Engine) -> WorldActs:
    settings = evolve(engine.settings, reorg_lookback_blocks=2)
    return WorldActs(engine.plane.database, engine.plane.coordination, truth_of([engine.node]), settings)


async def _sends(engine: Engine) -> int:
    return (await rows(engine, "SELECT count(*) FROM transactions.broadcasts"))[0][0]


async def _reset(engine: Engine) -> None:
    """Begin the chain anew, with another first block."""
    first = await engine.node.ask(methods.block_by_number(0))

    async def is_another() -> bool:
        # The node's clock counts seconds, and the second is in the block's hash.
        await told(engine, "anvil_reset")
        return await engine.node.ask(methods.block_by_number(0)) != first

    await until(is_another, seconds=5, what="a chain with another first block")


async def test_a_chain_that_began_anew_halts_and_restart_goes_on_with_it(engine: Engine) -> None:
    """Goal: TX-14's reset, whole. Method: one job is final, one is out and not mined, one has only its nonce; the chain
    begins anew. The running replica's tick and a new one's start both halt; nothing is sent, and /readyz says why and
    what to type. After `world restart` the signed job is dead with the reason, the unsigned one and a new one complete
    in the new world; the old replica goes on too."""
    final, out, reserved = attempts = await engine.attempts(3)
    async with _replica(engine) as running:
        await running.register()
        assert await _execute(running, engine, final) == Ended()
        await _tick(running, engine, 4)
        await told(engine, "evm_setAutomine", False)
        assert await _execute(running, engine, out) == Ended()
        (lineage,) = await engine.journal.allocate_many([Allocation(reserved, any_call())])
        assert isinstance(lineage, Lineage)
        assert await states(engine, attempts) == ["completed", "confirming", "processing"]
        await _reset(engine)
        await told(engine, "evm_setAutomine", True)
        sends = await _sends(engine)
        await running._tick()  # pyright: ignore[reportPrivateUsage]
        async with _replica(engine) as started:
            await started.register()
            (halt,) = await started.halts()
            reserved = await taken_over(engine, reserved)
            for replica in (running, started):
                assert isinstance(await _execute(replica, engine, reserved), Postponed)
                assert not await replica._tick()  # pyright: ignore[reportPrivateUsage]
        assert halt.kind == "chain_reset"
        assert halt.evidence["found_hash"] != halt.evidence["known_hash"]
        (reason,) = await halt_reasons(running.halts, ROLE)
        assert f"`tayho world restart {ROLE}`" in reason.reason
        assert await _sends(engine) == sends
        assert await engine.node.ask(methods.transaction_count(FIRST.value, "pending")) == 0
        done = await _acts(engine).restart("ada")
        assert done.resolved == (halt.halt_id,)
        assert (done.superseded, set(done.fences.values())) == (2, {0})
        assert await states(engine, attempts) == ["completed", "dead", "retry"]
        record = await engine.plane.coordination.inspect(out.job_id)
        assert record is not None
        assert isinstance(record.last_error, dict)
        assert record.last_error["type"] == "WorldRestarted"
        (fresh,) = await engine.attempts(1, key="fresh")
        reserved = await taken_over(engine, reserved)
        assert isinstance(await _execute(running, engine, fresh), Postponed), "it has not looked yet"
        await _tick(running, engine)
        for attempt in (reserved, fresh):
            assert await _execute(running, engine, attempt) == Ended()
        await _tick(running, engine, 4)
    assert await states(engine, [reserved, fresh]) == ["completed"] * 2
    worlds = await rows(engine, "SELECT world, first_nonce, next_nonce FROM transactions.lanes ORDER BY signer")
    assert worlds == [(2, 0, 1)] * 2
    assert [(kind, detail["actor"]) for kind, detail in await findings(engine)] == [("world_restarted", "ada")] * 2
    resolved = await rows(engine, "SELECT resolution, resolved_by FROM transactions.halts")
    assert resolved == [("restarted", "ada")]
    await check_invariants(engine.plane.database, engine.node, engine.contract)


async def test_a_chain_ahead_at_start_halts_and_adopt_goes_on_behind_it(engine: Engine) -> None:
    """Goal: nonces that nobody here remembers stop a start. Method: three transactions of one signer by another hand
    while nobody runs; a start halts and sends nothing; after `world adopt` the fence stands behind them, each noted;
    what was out before is final, and a new job completes; asking again has nothing to adopt."""
    before, after = await engine.attempts(2)
    async with _replica(engine) as first:
        await first.register()
        assert await _execute(first, engine, before) == Ended()
    fence = (await lanes(engine))[FIRST].next_nonce
    await use_elsewhere(engine, FIRST, 3)
    sends = await _sends(engine)
    async with _replica(engine) as second:
        await second.register()
        (halt,) = await second.halts()
        assert halt.kind == "chain_ahead"
        assert halt.evidence["lanes"] == [{"signer": str(FIRST), "fence": fence, "chain_nonce": fence + 3}]
        assert isinstance(await _execute(second, engine, after), Postponed)
        assert not await second._tick()  # pyright: ignore[reportPrivateUsage]
        assert await _sends(engine) == sends
        with pytest.raises(WrongRemedy):
            await _acts(engine).restart("ada")
        done = await _acts(engine).adopt("ada")
        assert (done.foreign_nonces, done.fences[str(FIRST)]) == (3, fence + 3)
        with pytest.raises(NothingHalted):
            await _acts(engine).adopt("ada")
        await _tick(second, engine)
        assert await _execute(second, engine, after) == Ended()
        await _tick(second, engine, 4)
    assert await states(engine, [before, after]) == ["completed"] * 2
    noted = await rows(engine, "SELECT nonce FROM transactions.foreign_nonces ORDER BY nonce")
    assert noted == [(fence,), (fence + 1,), (fence + 2,)]
    assert [kind for kind, _ in await findings(engine)] == ["foreign_nonce", "world_adopted", "world_adopted"]
    await check_invariants(engine.plane.database, engine.node, engine.contract)


@pytest.mark.parametrize("is_beating", [True, False])
async def test_a_start_beside_others_takes_their_word_only_if_they_speak_now(engine: Engine, is_beating: bool) -> None:
    """Goal: a heartbeat that a backup brought along proves nobody. Method: nonces used elsewhere; a worker row that was
    heard a moment ago; only where it is heard again does the start not halt."""
    await use_elsewhere(engine, FIRST)
    row = WorkerRow(engine.plane.database, new_id(), Drain(seconds=1))
    await row.register("another", CHAIN_ID, ENVIRONMENT, [ROLE], "0")
    async with _replica(engine) as started, trio.open_nursery() as others:

        async def beat() -> None:
            while is_beating:
                await row.heartbeat([])
                await trio.sleep(0.1)

        others.start_soon(beat)
        await started.register()
        assert [halt.kind for halt in await started.halts()] == ([] if is_beating else ["chain_ahead"])
        others.cancel_scope.cancel()


async def test_a_halt_for_a_chain_that_was_not_there_ends_when_it_is(engine: Engine) -> None:
    """Goal: a majority that lags for a while needs no operator. Method: the anchor is one that the node does not have;
    a tick halts; then it has it, and the next tick says `gone` and works on."""
    async with _replica(engine) as running:
        await running.register()
        (true,) = await rows(engine, "SELECT anchor_block_number, anchor_block_hash FROM transactions.pools")
        await _set_anchor(engine, 10**6, b"\x01" * 32)
        await running._tick()  # pyright: ignore[reportPrivateUsage]
        (halt,) = await running.halts()
        assert (halt.kind, halt.evidence["found_hash"]) == ("chain_reset", None)
        await _set_anchor(engine, *true)
        (attempt,) = await engine.attempts(1)
        await _tick(running, engine)
        assert await _execute(running, engine, attempt) == Ended()
        await _tick(running, engine, 3)
    assert await states(engine, [attempt]) == ["completed"]
    assert await rows(engine, "SELECT resolution FROM transactions.halts") == [("gone",)]


async def _set_anchor(engine: Engine, number: int, block_hash: bytes) -> None:
    async with engine.plane.database.connection() as connection:
        await connection.execute(
            "UPDATE transactions.pools SET anchor_block_number = $1, anchor_block_hash = $2", number, block_hash
        )


async def test_what_no_majority_tells_halts_nothing_and_starts_nothing(engine: Engine) -> None:
    """Goal: silence is neither a wrong world nor a right one. Method: a node that answers nothing about blocks: a check
    changes nothing; a node that tells no nonces: the start is refused with the voters' answers."""
    away = EndpointFault("node", Transport("connection refused"))
    async with _replica(engine) as running:
        await running.register()
    no_blocks = Blind(engine.node, lambda call: call.method == "eth_getBlockByNumber", away)
    world = World(
        engine.plane.database,
        engine.plane.coordination,
        truth_of([no_blocks]),
        engine.executor.halts,
        engine.settings,
    )
    await world.check()
    assert await engine.executor.halts.open() == []
    no_nonces = Blind(
        engine.node, lambda call: call.method == "eth_getTransactionCount" and call.params[1] != "pending", away
    )
    async with _replica(engine, no_nonces) as started:
        with pytest.raises(NoQuorum, match="eth_getTransactionCount"):
            await started.register()
    assert await engine.executor.halts.open() == []


async def test_the_anchor_follows_the_chain_and_never_within_reach_of_a_reorganisation(engine: Engine) -> None:
    """Goal: it stays deep, and is written seldom. Method: let the chain grow block by block; each anchor is at least
    the lookback below the head that was looked at, goes up only, and moves once in so many blocks."""
    seen: list[int] = []
    async with _replica(engine) as running:
        await running.register()
        for _ in range(9):
            head = await engine.node.ask(methods.block_number())
            await running._tick()  # pyright: ignore[reportPrivateUsage]
            ((number,),) = await rows(engine, "SELECT anchor_block_number FROM transactions.pools")
            assert number <= max(head - 2, 0)
            assert head - number < 2 + 2 + 1
            seen.append(number)
            await mine(engine)
    assert seen == sorted(seen)
    assert 3 <= len(set(seen)) <= 6
