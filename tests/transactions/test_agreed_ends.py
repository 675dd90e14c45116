"""What ends a job for good without a transaction is a majority's word, not one endpoint's (TX-11, RPC-5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pytest
from attrs import define, field

from rpc import methods
from rpc.errors import Reverted, RpcError, RpcRefused
from rpc.reads import Call as Question
from rpc.reads import Reads
from tayho.kernel.jobs import Ended, Job, NotActionable
from tayho.kinds import Actionable, Revalidation
from tayho.transactions.executor import execute_or_postpone
from tayho.transactions.simulation import Simulations
from tayho.voters import truth_of
from tests.transactions.conftest import SIGNERS, Engine, any_call
from tests.transactions.test_executor import Kind

pytestmark = pytest.mark.services
T = TypeVar("T")
SPENT = b"\x01"


@define
class Endpoint:
    """The node, as one endpoint shows it."""

    node: Reads
    shown: str
    lie: Callable[[Question[Any], Any], Any] = field(default=lambda _, answer: answer)

    async def ask(self, call: Question[T]) -> T:
        (answer,) = await self.ask_many([call])
        if isinstance(answer, RpcError):
            raise answer
        return answer

    async def ask_many(self, calls: Sequence[Question[T]]) -> list[T | RpcError]:
        answers: list[Any] = []
        for call in calls:
            try:
                answers.append(await self.node.ask(call))
            except RpcRefused as error:
                answers.append(error)
        return [self.lie(call, answer) for call, answer in zip(calls, answers, strict=True)]


def reverts(call: Question[Any], answer: Any) -> Any:
    """Whatever is called or estimated reverts."""
    if call.method not in {"eth_call", "eth_estimateGas"}:
        return answer
    return Reverted(3, "execution reverted", endpoint="liar", method=call.method, data=b"")


def shows_code(call: Question[Any], answer: Any) -> Any:
    """There is code where there is none."""
    return SPENT if call.method == "eth_getCode" else answer


class AsksForCode(Kind):
    """Wants its call for as long as nothing is at its address."""

    async def revalidate(self, job: Job, reads: Reads) -> Revalidation:
        code = await reads.ask(methods.code(self.wanted.to.value, "latest"))
        return NotActionable("it is there already") if code else Actionable()


def look_through(engine: Engine, liar: Callable[[Question[Any], Any], Any], liars: int) -> None:
    """The executor's own reads lie from now on, and so do so many of the three voters."""
    first = Endpoint(engine.node, "one", liar)
    others = [Endpoint(engine.node, name) for name in ("two", "three")]
    for other in others[: liars - 1]:
        other.lie = liar
    executor = engine.executor
    executor._reads = first  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    executor._simulations = Simulations(first, executor.fee_market, SIGNERS)  # pyright: ignore[reportPrivateUsage]
    executor._agreed = truth_of([first, *others]).reads  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(("kind", "lie"), [(Kind, reverts), (AsksForCode, shows_code)], ids=["reverts", "is there"])
async def test_one_endpoint_ends_no_job(engine: Engine, kind: type[Kind], lie: Callable[..., Any]) -> None:
    """Goal: the endpoint that is asked first cannot lose a job by a lie (ithaca#1124). Method: it says that the call
    reverts, or shows a state in which nothing is wanted; the two others do not: the transaction goes out."""
    (attempt,) = await engine.attempts(1)
    look_through(engine, lie, liars=1)
    assert await execute_or_postpone(engine.executor, kind(any_call()), await engine.job(attempt), attempt) == Ended()
    assert await engine.plane.state(attempt.job_id) == "confirming"


@pytest.mark.parametrize(("kind", "lie"), [(Kind, reverts), (AsksForCode, shows_code)], ids=["reverts", "is there"])
async def test_a_majority_does(engine: Engine, kind: type[Kind], lie: Callable[..., Any]) -> None:
    """Goal: what most endpoints show is believed, and takes no nonce. Method: the same, told by two of three."""
    (attempt,) = await engine.attempts(1)
    look_through(engine, lie, liars=2)
    outcome = await execute_or_postpone(engine.executor, kind(any_call()), await engine.job(attempt), attempt)
    assert isinstance(outcome, NotActionable)
    async with engine.plane.database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM transactions.lineages") == 0
