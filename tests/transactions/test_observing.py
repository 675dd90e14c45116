"""What the engine tells to whoever counts, beside what `test_holds` shows: what an operator is woken for."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import trio

from rpc.contests import BURST_MAX
from rpc.evidence import Evidence
from tayho.transactions.evidence import EvidenceKeeper
from tayho.transactions.module import Transactions
from tayho.transactions.types import Happening
from tayho.voters import truth_of
from tests.transactions.conftest import SIGNERS, Engine
from tests.transactions.replacements import mining_held, replacing, sent, step
from tests.transactions.test_reconciler import UNREADABLE, Blind
from tests.waiting import until

DROPPED = 5


class Counted(Counter[tuple[Happening, str]]):
    """Counts as the metrics do."""

    def observe(self, what: Happening, label: str, count: int) -> None:
        if count:
            self[what, label] += count


async def test_a_look_without_a_majority_is_counted(engine: Engine) -> None:
    """Goal: an alert can be written on it. Method: an engine whose one voter shows no block, until it has looked."""
    seen = Counted()
    blind = Blind(engine.node, lambda call: call.method.startswith("eth_getBlock"), UNREADABLE)
    transactions = Transactions(
        engine.plane.database,
        engine.plane.coordination,
        engine.executor._custody,  # pyright: ignore[reportPrivateUsage]
        engine.node,
        truth_of([blind]),
        engine.node,
        "node",
        engine.settings,
        SIGNERS,
        seen.observe,
    )
    async with trio.open_nursery() as tasks:
        tasks.start_soon(transactions.run)
        await until(lambda: seen[Happening.LOOK_FAILED, "NoQuorum"] > 0, what="a look that failed")
        tasks.cancel_scope.cancel()


async def test_contests_are_counted_with_those_that_nobody_wrote_down(engine: Engine) -> None:
    """Goal: a liar is seen, and so is that he floods us. Method: more contests than may be written; two turns."""
    seen = Counted()
    truth = truth_of([engine.node])
    for number in range(BURST_MAX + DROPPED):
        outcome = "refuted" if number == 0 else "no quorum"
        truth.contests.note(Evidence("eth_chainId", str(number), outcome, datetime.now(UTC), ()))
    keeper = EvidenceKeeper(engine.plane.database, truth, engine.settings, seen.observe)
    await keeper.turn()
    await keeper.turn()
    assert seen == {
        (Happening.CONTESTED, "refuted"): 1,
        (Happening.CONTESTED, "contested"): BURST_MAX - 1,
        (Happening.EVIDENCE_DROPPED, ""): DROPPED,
    }


async def test_a_replacement_is_counted_by_its_cause(engine: Engine) -> None:
    """Goal: a market that moves is seen by what is replaced. Method: one stuck transaction, one round."""
    seen = Counted()
    replaces = replacing(engine)
    replaces._observe = seen.observe  # pyright: ignore[reportPrivateUsage]
    async with mining_held(engine.node):
        await sent(engine, 1)
        await step(engine, replaces)
    assert seen[Happening.REPLACED, "stuck"] == 1
