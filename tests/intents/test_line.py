"""The front of the line is taken once and in order, whoever races (INT-4, I10); the chain only says what each needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, TypeVar, cast
from uuid import UUID

import pytest
import trio
from attrs import evolve

from rpc.errors import RpcError
from rpc.reads import Call as Question
from rpc.reads import Reads
from storage.database import Database
from storage.errors import Conflict
from tayho.coordination.module import Coordination
from tayho.intents import store
from tayho.intents.module import BATCH_KIND, Batcher, Sight
from tayho.intents.module import Line as Places
from tayho.kernel.address import Address
from tayho.protocol.batches import ReferenceExecutor
from tayho.voters import truth_of
from tests.coordination.conftest import CHAIN_ID, ENVIRONMENT, SETTINGS
from tests.coordination.test_races import until_waiting
from tests.intents.conftest import DOMAIN, Line, intent, signed
from tests.intents.relaying import BATCHES

pytestmark = pytest.mark.services

T = TypeVar("T")
CONTRACT = ReferenceExecutor(Address(b"\x80" * 20), DOMAIN.protocol)
HEAD = SimpleNamespace(gas_limit=30_000_000, timestamp_seconds=0)


class Node:
    """A node for which every intent needs as much; `meanwhile` happens while it is asked for the first time."""

    def __init__(self, meanwhile: Callable[[], Any] | None = None, *, shown: str = "node", gas: int = 120_000) -> None:
        self._meanwhile = meanwhile
        self.shown = shown
        self._gas = gas

    async def ask(self, call: Question[T]) -> T:
        raise AssertionError(call)

    async def ask_many(self, calls: Sequence[Question[T]]) -> list[T | RpcError]:
        await trio.lowlevel.checkpoint()
        meanwhile, self._meanwhile = self._meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return [cast("T", self._gas) for _ in calls]


def batcher(
    line: Line,
    *,
    database: Database | None = None,
    node: Reads | None = None,
    voters: Sequence[Node] = (),
    **changes: Any,
) -> Batcher:
    opened = database or line.plane.database

    async def head() -> Any:
        await trio.lowlevel.checkpoint()
        return HEAD

    return Batcher(
        opened,
        Coordination(opened, line.plane.queue_of, CHAIN_ID, ENVIRONMENT, SETTINGS),
        DOMAIN,
        ENVIRONMENT,
        CONTRACT,
        Sight(node or Node(), head, reached=truth_of(voters).reached if voters else None),
        evolve(BATCHES, **changes),
        lambda what, label, count: None,
    )


async def submit(line: Line, *salts: int) -> list[UUID]:
    return [(await line.intents.submit(signed(intent(salt), line.key))).job_id for salt in salts]


async def rows(line: Line, sql: str, *arguments: object) -> list[tuple[Any, ...]]:
    async with line.plane.database.connection() as connection:
        return [tuple(row.values()) for row in await connection.fetch(sql, *arguments)]


async def batches(line: Line) -> int:
    ((count,),) = await rows(line, "SELECT count(*) FROM coordination.jobs WHERE kind = $1", BATCH_KIND)
    return count


@pytest.mark.parametrize("told", [21_000, 9_000_000])
async def test_one_endpoint_moves_no_stipend(line: Line, told: int) -> None:
    """Goal: nobody's intent is starved, or priced out, on one endpoint's word (INT-5). Method: one of three voters, and
    the pool itself, tell far too little or far too much; the stipend is the one that the two others give."""
    alone = batcher(line, node=Node(gas=120_000))
    await submit(line, 1)
    await alone.look()
    liar = Node(shown="liar", gas=told)
    await submit(line, 2)
    await batcher(line, node=liar, voters=[liar, Node(shown="one"), Node(shown="two")]).look()
    (honest,), (disputed,) = await rows(line, "SELECT gas_stipend FROM intents.children ORDER BY changed_at")
    # Two signatures have not as many zeros, and cost that much more or less to send.
    assert disputed == pytest.approx(honest, abs=200)


@pytest.mark.parametrize("items_max", [3, 64])
async def test_two_relayers_at_one_line_take_each_intent_once_in_order(
    line: Line, database_url: str, items_max: int
) -> None:
    """Goal: must-show 2, I10. Method: two relayers look again and again while forty intents come in from four clients;
    each intent is in exactly one batch, and the batches one after the other have the line's own order."""
    places = Places(line.plane.database, CHAIN_ID, ENVIRONMENT)
    is_over = False

    async def relayer(database: Database) -> None:
        one = batcher(line, database=database, items_max=items_max)
        while not is_over or (await places.look()).waiting:
            await one.look()

    async with Database.open(database_url, pool_size=2, application_name="other") as other, trio.open_nursery() as both:
        both.start_soon(relayer, line.plane.database)
        both.start_soon(relayer, other)
        async with trio.open_nursery() as clients:
            for number in range(4):
                clients.start_soon(submit, line, *range(number, 40, 4))
        is_over = True

    carried = await rows(
        line,
        "SELECT children.batch_job_id, children.child_index FROM intents.intents"
        " LEFT JOIN intents.children USING (job_id) ORDER BY place",
    )
    assert len(carried) == 40
    sizes = Counter(batch for batch, _ in carried)
    assert max(sizes.values()) <= items_max
    # Each batch is one piece of the line, whole and in order.
    in_turn = dict.fromkeys(batch for batch, _ in carried)
    assert carried == [(batch, index) for batch in in_turn for index in range(sizes[batch])]
    parents = await rows(
        line, "SELECT batch_job_id, count(*) FROM coordination.jobs WHERE state = 'batched' GROUP BY batch_job_id"
    )
    assert dict(parents) == dict(sizes)
    assert await rows(line, "SELECT count(*) FROM coordination.outbox") == [(len(sizes),)]


async def test_a_claim_waits_for_another_and_no_client_waits_for_either(line: Line) -> None:
    """Goal: one prefix at a time, and the door stays open meanwhile. Method: hold the line's row as a claim does; a
    relayer waits, an intent is taken; then the relayer takes what it had decided about."""
    (first,) = await submit(line, 1)
    async with trio.open_nursery() as racers, line.plane.database.transaction() as holder:
        assert await store.LOCK_LINE(holder, CHAIN_ID, ENVIRONMENT)
        racers.start_soon(batcher(line).look)
        await until_waiting(line.plane.database, 1)
        with trio.fail_after(5):
            (second,) = await submit(line, 2)
    assert [await line.plane.state(job_id) for job_id in (first, second)] == ["batched", "pending_batch"]


async def test_what_another_relayer_took_meanwhile_is_left_to_it(line: Line) -> None:
    """Goal: a decision about a front that is gone decides nothing. Method: while one relayer has three intents
    simulated, another takes the first two; the first takes nothing, looks again, and takes the third."""
    job_ids = await submit(line, 1, 2, 3)
    other = batcher(line, items_max=2)
    one = batcher(line, node=Node(other.look))
    assert await one.look() is True
    assert await batches(line) == 1
    assert await one.look() is False
    places = await rows(line, "SELECT job_id, child_index FROM intents.children ORDER BY batch_job_id, child_index")
    assert places == [(job_ids[0], 0), (job_ids[1], 1), (job_ids[2], 0)]


async def test_intents_for_another_protocol_are_left_to_its_relayers(line: Line) -> None:
    """Goal: a relayer that is told of another contract ends nobody's intent. Method: one whose protocol is another."""
    (job_id,) = await submit(line, 1)
    stranger = batcher(line)
    stranger._protocol = Address(b"\x71" * 20)  # pyright: ignore[reportPrivateUsage]
    assert await stranger.look() is False
    assert await line.plane.state(job_id) == "pending_batch"


async def test_the_database_refuses_an_intent_a_second_batch(line: Line) -> None:
    """Goal: I10 is the database's. Method: write a second place for a carried intent, past the code."""
    job_ids = await submit(line, 1)
    await batcher(line).look()
    with pytest.raises(Conflict) as refused:
        async with line.plane.database.transaction() as tx:
            await store.CLAIM_CHILDREN(tx, UUID(int=7), job_ids, [1])
    assert refused.value.constraint == "children_one_batch"
