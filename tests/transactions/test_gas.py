"""The gas that is signed: never on the word of a node that tells nonsense, and for a filler never a constant (TX-8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import pytest
from attrs import evolve

from rpc.errors import RpcError
from rpc.reads import Call as Question
from rpc.reads import Reads
from tayho.kernel.jobs import Ended
from tayho.transactions.errors import EstimateAbsurd
from tayho.transactions.types import Allocation
from tests.transactions.conftest import Engine, any_call
from tests.transactions.watching import execute, rows

T = TypeVar("T")


class Changing:
    """The node, with the answers of some methods changed."""

    def __init__(self, node: Reads, changes: Mapping[str, Callable[[Any], Any]]) -> None:
        self._node = node
        self._changes = changes

    async def ask(self, call: Question[T]) -> T:
        return self._changed(call, await self._node.ask(call))

    async def ask_many(self, calls: Sequence[Question[T]]) -> list[T | RpcError]:
        answers = await self._node.ask_many(calls)
        return [self._changed(call, answer) for call, answer in zip(calls, answers, strict=True)]

    def _changed(self, call: Question[Any], answer: Any) -> Any:
        return self._changes.get(call.method, lambda same: same)(answer)


def change(engine: Engine, **changes: Callable[[Any], Any]) -> None:
    engine.executor._simulations._reads = Changing(engine.node, changes)  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    "changes",
    [
        {"eth_estimateGas": lambda _: 0},
        {"eth_estimateGas": lambda _: 20_999},
        {"eth_estimateGas": lambda _: 2**40},
        {"eth_getBlockByNumber": lambda header: evolve(header, gas_limit=0)},
    ],
    ids=["nothing", "below a transfer", "above the block", "a block without gas"],
)
async def test_absurd_gas_signs_nothing_and_ends_nothing(
    engine: Engine, changes: Mapping[str, Callable[[Any], Any]]
) -> None:
    """Goal: a node's nonsense takes no nonce, signs nothing and does not refuse the job for good (hyperlane#8152).
    Method: a node that tells it; then the same job with an honest one."""
    (attempt,) = await engine.attempts(1)
    change(engine, **changes)
    with pytest.raises(EstimateAbsurd):
        await execute(engine, attempt)
    assert await rows(engine, "SELECT 1 FROM transactions.lineages") == []
    change(engine)
    assert await execute(engine, attempt) == Ended()
    ((gas_limit,),) = await rows(engine, "SELECT gas_limit FROM transactions.members")
    assert 21_000 < gas_limit <= 2**24


async def test_a_filler_is_signed_with_the_gas_that_its_node_estimates(engine: Engine) -> None:
    """Goal: on a chain that counts another chain's data in gas, a filler of 21,000 would block its lane for ever
    (connext#3528). Method: estimates as of an Arbitrum chain; give up a nonce below the tail, and see its filler
    signed with the estimate and its buffer."""
    attempts = await engine.attempts(3)
    lineages = await engine.journal.allocate_many([Allocation(one, any_call()) for one in attempts])
    by_nonce = sorted(
        (
            (attempt, lineage)
            for attempt, lineage in zip(attempts, lineages, strict=True)
            if not isinstance(lineage, Exception)
        ),
        key=lambda pair: (pair[1].signer, pair[1].nonce),
    )
    attempt, lineage = by_nonce[0]
    assert by_nonce[1][1].signer == lineage.signer
    await engine.journal.abandon_unsigned(attempt, lineage, {"reason": "not wanted"})
    change(engine, eth_estimateGas=lambda _: 400_000)
    await engine.reconciler.tick()
    found = await rows(
        engine,
        "SELECT members.gas_limit, lineages.to_address = lineages.signer FROM transactions.members AS members"
        " JOIN transactions.lineages AS lineages USING (lineage_id) WHERE lineages.purpose = 'filler'",
    )
    assert found == [(480_000, True)]
