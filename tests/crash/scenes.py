"""What makes a replica pass a step of a transaction's way: each scene is played until the one that is to die has died.

Two replicas share what a scene brings, and either may take it: a scene can be played again and again.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias
from uuid import UUID

import trio
from attrs import define, field

from rpc import methods
from rpc.quantities import hash32
from rpc.reads import Call
from tayho.demo.fleet import Replica
from tayho.kernel.address import Address
from tayho.local.development import PUBLIC_ACCOUNTS
from tayho.transactions.errors import ActRefused
from tayho.transactions.module import LineageControl
from tests.crash.world import ENVIRONMENT, RECONCILE_SECONDS, World
from tests.invariants import TERMINAL
from tests.services.chain import CHAIN_ID
from tests.waiting import until

GWEI = 10**9
FIRST, SECOND = sorted(Address.parse(address) for address, _ in PUBLIC_ACCOUNTS)
RICH_WEI, POOR_WEI = 10**22, 10**15
GATE = Address(b"\x99" * 20)
# A word of zeros for one caller and a revert for every other; a word of zeros for all.
GATE_FOR = "0x33156022573373{}146022575f5ffd5b60205ff3"
GATE_OPEN = "0x60205ff3"
BLOCK_SECONDS = 0.25
# Twelve seconds of blocks: what has ended can still be taken back a while later.
LOOKBACK_BLOCKS = 48
# What two replicas may have ticked in, and one of them acted on.
TICKS_SECONDS = 3 * RECONCILE_SECONDS
# The lock of a dead one's delivery, two scans, and the attempt that follows.
TAKEN_OVER_SECONDS = 6
STUCK = {"TX_STUCK_SECONDS": "2", "TX_MAX_REPLACEMENTS": "1"}
# Until it is replaced, and until it is held.
STUCK_SECONDS = 6


@define
class Stage:
    """Two replicas in a world, one of them about to die, and what was asked of them."""

    world: World
    variables: Mapping[str, str]
    doomed: Replica | None = None
    # All of these complete.
    wanted: list[UUID] = field(factory=list[UUID])
    # Each of these may end in any way that is one of a job's.
    disputed: list[UUID] = field(factory=list[UUID])
    # These end dead, without effect.
    overtaken: list[UUID] = field(factory=list[UUID])
    foreign: list[bytes] = field(factory=list[bytes])
    are_blocks_stopped: bool = False
    _keys: int = 0

    async def enqueue(self, count: int, **request: str) -> list[UUID]:
        """Jobs that are to complete."""
        job_ids = await self.world.enqueue(self.key(), count, **request)
        self.wanted += job_ids
        return job_ids

    def key(self) -> str:
        self._keys += 1
        return f"key-{self._keys}"

    async def has_died(self, seconds: float) -> bool:
        """Whether the doomed replica dies within so many seconds."""
        assert self.doomed is not None
        with trio.move_on_after(seconds):
            await self.doomed.process.wait()
        return self.doomed.process.poll() is not None

    async def told(self, method: str, *parameters: object) -> Any:
        return await self.world.node.ask(Call(method, parameters, lambda answer: answer, is_write=True))

    async def rows(self, sql: str, *arguments: object) -> list[tuple[Any, ...]]:
        async with self.world.database.connection() as connection:
            return [tuple(row.values()) for row in await connection.fetch(sql, *arguments)]

    async def make_blocks(self) -> None:
        """Make them in the node's place, until cancelled: a node that does it itself knows whole seconds only."""
        await self.told("evm_setIntervalMining", 0)
        while True:
            if not self.are_blocks_stopped:
                await self.told("evm_mine")
            await trio.sleep(BLOCK_SECONDS)

    async def until_out(self, job_ids: list[UUID]) -> None:
        """A node has a transaction of each."""
        for job_id in job_ids:
            await self.world.await_state(job_id, "confirming", *TERMINAL)


Scene: TypeAlias = Callable[[Stage], Awaitable[None]]


async def load(stage: Stage) -> None:
    """A few jobs."""
    await stage.enqueue(3)
    await stage.has_died(RECONCILE_SECONDS / 2)


async def growth(stage: Stage) -> None:
    """As many blocks as move an anchor and a boundary."""
    await stage.told("anvil_mine", hex(LOOKBACK_BLOCKS))
    await stage.has_died(TICKS_SECONDS)


async def stuck(stage: Stage) -> None:
    """No blocks: what is in flight is replaced as often as it may be, and then held."""
    stage.are_blocks_stopped = True
    job_ids = await stage.enqueue(2)
    await stage.has_died(STUCK_SECONDS)
    stage.are_blocks_stopped = False
    # What is held would stand before whatever the next round brings.
    await stage.world.await_all_ended(job_ids)


async def dropped(stage: Stage) -> None:
    """The node forgets its pool."""
    stage.are_blocks_stopped = True
    await stage.until_out(await stage.enqueue(3))
    await stage.told("anvil_dropAllTransactions")
    await stage.has_died(TICKS_SECONDS)
    stage.are_blocks_stopped = False


async def taken_back(stage: Stage) -> None:
    """Blocks that have ended jobs are replaced by empty ones, and nobody mines again what was in them."""
    job_ids = await stage.enqueue(2)
    await stage.world.await_all_ended(job_ids)
    ((lowest,),) = await stage.rows(
        "SELECT min(included_block_number) FROM transactions.lineages WHERE job_id = ANY ($1::uuid[])", job_ids
    )
    depth = await stage.world.node.ask(methods.block_number()) - lowest + 2
    assert depth < LOOKBACK_BLOCKS, "the jobs took so long that it would be no reorganisation any more"
    await stage.told("anvil_reorg", depth, [])
    await stage.has_died(TICKS_SECONDS)


async def overtaken(stage: Stage) -> None:
    """Somebody else's transaction is mined at the nonce of one that is out."""
    await _overtaken(stage, blocks=5)


async def overtaken_long_ago(stage: Stage) -> None:
    """As above, and so deep that nobody finds out what it was."""
    await _overtaken(stage, blocks=4 * LOOKBACK_BLOCKS)


async def _overtaken(stage: Stage, blocks: int) -> None:
    stage.are_blocks_stopped = True
    (job_id,) = await stage.world.enqueue(stage.key(), 1)
    stage.overtaken.append(job_id)
    await stage.until_out([job_id])
    ((signer, nonce),) = await stage.rows("SELECT signer, nonce FROM transactions.lineages WHERE job_id = $1", job_id)
    outbidding = {
        "from": f"0x{signer.hex()}",
        "to": f"0x{'99' * 20}",
        "nonce": hex(nonce),
        "maxFeePerGas": hex(400 * GWEI),
        "maxPriorityFeePerGas": hex(200 * GWEI),
    }
    stage.foreign.append(await stage.world.node.ask(Call("eth_sendTransaction", (outbidding,), hash32, is_write=True)))
    await stage.told("anvil_mine", hex(blocks))
    stage.are_blocks_stopped = False
    await stage.has_died(3 * TICKS_SECONDS)


async def given_up(stage: Stage) -> None:
    """A third replica dies with nonces that nothing was signed for, and nobody needs their effect any more."""
    events = await _left_unsigned(stage)
    await stage.world.record_by_a_foreign_key(*events.values())
    await stage.has_died(TAKEN_OVER_SECONDS)


async def cancelled_unsigned(stage: Stage) -> None:
    """A third replica dies with nonces that nothing was signed for, and an operator wants none of them."""
    control = LineageControl(stage.world.database, CHAIN_ID, ENVIRONMENT)
    for job_id in await _left_unsigned(stage):
        # One of the two may have taken it over and be through with it.
        with suppress(ActRefused):
            await control.request("cancel", job_id, "ada", "a test")
    await stage.has_died(TAKEN_OVER_SECONDS)


async def _left_unsigned(stage: Stage) -> dict[UUID, bytes]:
    """The jobs whose nonces a third replica has left unsigned, with the event that each wants."""
    third = await stage.world.start(crash_at="journal.after_allocate", **stage.variables)
    await stage.world.await_word(third, "started")
    third.is_expected_to_end = True
    events: dict[UUID, bytes] = {}
    while third.process.poll() is None:
        for event in (os.urandom(32) for _ in range(4)):
            events[await stage.world.enqueue_once(stage.key(), event)] = event
        with trio.move_on_after(0.3):
            await third.process.wait()
    await stage.world.await_death(third)
    stage.disputed += events
    unsigned = await stage.rows(
        "SELECT job_id FROM transactions.lineages WHERE state = 'allocated' AND job_id = ANY ($1::uuid[])", list(events)
    )
    return {job_id: events[job_id] for (job_id,) in unsigned}


async def dry(stage: Stage) -> None:
    """A signer has no funds, and has them again."""
    await stage.told("anvil_setBalance", str(FIRST), hex(POOR_WEI))
    await stage.has_died(TICKS_SECONDS)
    await stage.told("anvil_setBalance", str(FIRST), hex(RICH_WEI))
    await stage.has_died(TICKS_SECONDS)


async def used_elsewhere(stage: Stage) -> None:
    """Somebody else uses a key of ours, for good."""
    at_rest = {"from": str(FIRST), "to": str(FIRST), "value": "0x0"}
    stage.foreign.append(await stage.world.node.ask(Call("eth_sendTransaction", (at_rest,), hash32, is_write=True)))
    await stage.told("anvil_mine", hex(LOOKBACK_BLOCKS + 1))
    await stage.has_died(TICKS_SECONDS)


async def gated(stage: Stage) -> None:
    """A contract lets one signer in and not the other, whose lane was open until now."""
    async with stage.world.database.connection() as connection:
        await connection.execute(
            "UPDATE transactions.lanes SET state = 'open', state_reason = NULL WHERE state = 'blocked'"
        )
    await stage.told("anvil_setCode", str(GATE), GATE_FOR.format(FIRST.value.hex()))
    await stage.enqueue(3, contract=str(GATE), job=f"0x{os.urandom(32).hex()}")
    await stage.has_died(TICKS_SECONDS)


async def let_in(stage: Stage) -> None:
    """The contract lets everybody in. Whoever runs for a while has looked already, and does not for a minute."""
    await stage.told("anvil_setCode", str(GATE), GATE_OPEN)
    await stage.enqueue(2, contract=str(GATE), job=f"0x{os.urandom(32).hex()}")
    await stage.has_died(TICKS_SECONDS)


async def misplaced(stage: Stage) -> None:
    """The chain has not the block by which the pool knows it, and has it again."""
    ((number, block_hash),) = await stage.rows("SELECT anchor_block_number, anchor_block_hash FROM transactions.pools")
    await _set_anchor(stage, 10**6, b"\x01" * 32)

    async def is_halted(*, wanted: bool = True) -> bool:
        return bool(await stage.rows("SELECT FROM transactions.halts WHERE resolved_at IS NULL")) == wanted

    await until(is_halted, seconds=20, what="the halt")
    await stage.has_died(TICKS_SECONDS)
    await _set_anchor(stage, number, block_hash)
    await until(lambda: is_halted(wanted=False), seconds=20, what="the end of the halt")
    await stage.has_died(TICKS_SECONDS)


async def _set_anchor(stage: Stage, number: int, block_hash: bytes) -> None:
    async with stage.world.database.connection() as connection:
        await connection.execute(
            "UPDATE transactions.pools SET anchor_block_number = $1, anchor_block_hash = $2", number, block_hash
        )
