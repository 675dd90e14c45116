"""From the line to each intent's own result, on the reference contracts (INT-4 … INT-7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TypeVar
from uuid import UUID

import pytest
from attrs import evolve, frozen

from rpc.errors import EndpointFault, Reverted, RpcError, RpcRefused, Transport
from rpc.reads import Call as Question
from rpc.reads import Reads
from tayho.intents.batch_rules import gas_of
from tayho.intents.errors import LineWaits
from tayho.intents.signing import digest_of
from tayho.intents.types import Carried, Intent
from tayho.kernel.jobs import Ended, NotActionable
from tayho.protocol import abi
from tayho.protocol.intents import EXECUTOR
from tests.coordination.conftest import Plane
from tests.intents.relaying import DEED, Relay, relay_on_anvil
from tests.protocol.test_reference import BURNS, RETURNS_A_MEGABYTE, REVERTS, _reentering

pytestmark = pytest.mark.services

T = TypeVar("T")
AWAY = EndpointFault("node", Transport("connection refused"))
REFUSED = RpcRefused(-32000, "gas required exceeds allowance")


@pytest.fixture
async def relay(plane: Plane, tmp_path: Path) -> AsyncIterator[Relay]:
    async with relay_on_anvil(plane, tmp_path) as running:
        yield running


@frozen
class Says:
    """A node that answers every estimate with this error."""

    node: Reads
    error: RpcError

    async def ask(self, call: Question[T]) -> T:
        (answer,) = await self.ask_many([call])
        if isinstance(answer, RpcError):
            raise answer
        return answer

    async def ask_many(self, calls: Sequence[Question[T]]) -> list[T | RpcError]:
        answers = await self.node.ask_many(calls)
        return [
            self.error if call.method == "eth_estimateGas" else answer
            for call, answer in zip(calls, answers, strict=True)
        ]


async def types_of(relay: Relay, job_ids: Sequence[UUID]) -> list[object]:
    """The type of each job's last error."""
    errors = [(await relay.record(job_id)).last_error for job_id in job_ids]
    return [error.get("type") if isinstance(error, dict) else None for error in errors]


async def test_a_culprit_at_execution_hurts_no_sibling_and_the_line_goes_on(relay: Relay) -> None:
    """Goal: must-show 3 through the coordinator. Method: payments to accounts that get their code only after they were
    simulated: one burns all it gets, one returns a megabyte, one reverts, one calls the executor again; orders between
    them. Each order is completed, each culprit's own result recorded, and who comes later is carried."""
    reference = relay.reference
    accounts = [await reference.set_code(b"") for _ in range(4)]
    wanted: list[Intent] = [reference.order()]
    for account in accounts:
        wanted += [reference.withdrawal(account), reference.order()]
    job_ids = await relay.submit(*wanted)
    again = reference.signed(reference.order())
    assert await relay.batcher().look() is False
    (batch,) = await relay.batches()
    for account, code in zip(
        accounts, [BURNS, RETURNS_A_MEGABYTE, REVERTS, _reentering(reference, again.arguments())], strict=True
    ):
        await relay.ask("anvil_setCode", str(account), f"0x{code.hex()}")

    assert await relay.carry() == [Ended()]
    await relay.finish()

    assert await relay.states(job_ids) == ["completed", "dead"] * 4 + ["completed"]
    assert await types_of(relay, job_ids[1::2]) == ["IntentFailed"] * 4
    result = (await relay.record(batch)).result
    assert isinstance(result, dict)
    assert result["result"] == {"children": 9, "succeeded": 5, "failed": [1, 3, 5, 7]}
    places = await relay.places(job_ids)
    assert [(one.batch_job_id, one.child_index) for one in places] == [(batch, index) for index in range(9)]
    assert [one.succeeded for one in places] == [True, False] * 4 + [True]
    assert await reference.view("orderCount") == 5

    later = await relay.submit(reference.order())
    await relay.batcher().look()
    await relay.carry()
    await relay.finish()
    assert await relay.states(later) == ["completed"]
    assert Counter(label for _, label, _ in relay.seen) == {"": 4}


async def test_what_no_batch_can_carry_ends_and_the_line_goes_on(relay: Relay) -> None:
    """Goal: INT-6. Method: between orders, an intent spent meanwhile, one whose deadline passes, one that needs more
    gas than any batch has; each ends with its reason, and the orders are carried in their order."""
    reference = relay.reference
    spent, late = reference.order(), reference.order()
    block = await relay.ask("eth_getBlockByNumber", "latest", False)
    soon = evolve(late, deadline=int(block["timestamp"], 16) + 60)
    heavy = reference.withdrawal(await reference.set_code(b""))
    job_ids = await relay.submit(reference.order(), spent, reference.order(), soon, heavy, reference.order())
    await reference.execute([reference.signed(spent)])
    await relay.ask("evm_increaseTime", 120)
    await relay.ask("anvil_mine", "0x1")
    # Two thousand cold slots: it would succeed, with more than this batch may have.
    await relay.ask("anvil_setCode", str(_recipient(heavy)), f"0x{_loops(2_000).hex()}")

    await relay.batcher(gas_max=1_000_000).look()

    assert await relay.states(job_ids) == ["batched", "quarantined", "batched", "quarantined", "quarantined", "batched"]
    errors = [(await relay.record(job_id)).last_error for job_id in (job_ids[1], job_ids[3], job_ids[4])]
    assert [error["code"] for error in errors if isinstance(error, dict)] == [
        "would_revert",
        "deadline_passed",
        "too_much_gas",
    ]
    assert [one.child_index for one in await relay.places([job_ids[0], job_ids[2], job_ids[5]])] == [0, 1, 2]
    assert (await relay.line.look()).waiting == 0


def _recipient(withdrawal: Intent):
    return abi.codec.decode(["address", "uint256"], withdrawal.payload)[0]


def _loops(slots: int) -> bytes:
    """Code that reads so many cold slots, and returns."""
    return b"\x61" + slots.to_bytes(2, "big") + bytes.fromhex("5b805450600190038060035700")


async def test_that_it_would_revert_is_believed_of_a_majority_alone(relay: Relay) -> None:
    """Goal: one node cannot end an intent for good. Method: a node that says that all revert, beside a majority that
    does not; then a majority that cannot tell; then one that says the same."""
    node = relay.reference.endpoint
    lies = Says(node, Reverted(3, "execution reverted", data=b""))
    (first,) = await relay.submit(relay.reference.order())
    await relay.batcher(reads=lies, agreed=node).look()
    assert await relay.states([first]) == ["batched"]
    (second,) = await relay.submit(relay.reference.order())
    with pytest.raises(LineWaits, match="connection refused"):
        await relay.batcher(reads=lies, agreed=Says(node, AWAY)).look()
    assert await relay.states([second]) == ["pending_batch"]
    await relay.batcher(reads=lies, agreed=Says(node, REFUSED)).look()
    assert await relay.states([second]) == ["quarantined"]
    assert relay.seen[-1] == ("quarantined", "would_revert", 1)


def _logging(logs: Sequence[tuple[bytes, int, bytes]]) -> bytes:
    """Code that logs these children (batch id, index, digest) as done."""
    topic = abi.event_topic(EXECUTOR, "ChildExecuted")
    code = bytes.fromhex("6001600052")
    for batch_id, index, digest in logs:
        for one in (digest, index.to_bytes(32, "big"), batch_id, topic):
            code += b"\x7f" + one
        code += bytes.fromhex("60406000a4")
    return code + b"\x00"


@pytest.mark.parametrize(
    ("spoiled", "reason"),
    [("missing", "nothing of children [1]"), ("duplicate", "child 0 twice"), ("foreign", "another batch")],
)
async def test_logs_that_are_not_each_childs_own_hold_the_batch(relay: Relay, spoiled: str, reason: str) -> None:
    """Goal: must-show 4: nothing is guessed. Method: the batch is out and unmined when its executor's code is changed
    to one that logs a child too few, one twice, or another batch's; then it is mined."""
    reference = relay.reference
    wanted = [reference.order(), reference.order()]
    job_ids = await relay.submit(*wanted)
    await relay.batcher().look()
    (batch,) = await relay.batches()
    batch_id = batch.bytes.rjust(32, b"\0")
    own = [(batch_id, index, digest_of(one, reference.domain)) for index, one in enumerate(wanted)]
    logs = {"missing": own[:1], "duplicate": [*own, own[0]], "foreign": [own[0], (bytes(32), *own[1][1:])]}[spoiled]
    await relay.ask("evm_setAutomine", False)
    await relay.carry()
    await relay.ask("anvil_setCode", str(reference.executor), f"0x{_logging(logs).hex()}")
    await relay.finish()
    await relay.finish()

    assert (await relay.plane.state(batch), await relay.states(job_ids)) == ("confirming", ["batched"] * 2)
    ((state, hold, why),) = await relay.rows("SELECT state, hold, hold_reason FROM transactions.lineages")
    assert (state, hold) == ("broadcast", "result_missing")
    assert reason in why
    assert await relay.rows("SELECT kind FROM transactions.findings") == [("result_missing",)]
    assert [one.succeeded for one in await relay.places(job_ids)] == [None, None]


async def test_a_reorganisation_after_the_results_settles_the_children_once_more(relay: Relay) -> None:
    """Goal: must-show 4, TX-6. Method: a batch ended with its children; its block goes; they are under it again, their
    results gone; the batch is mined again and they end once."""
    job_ids = await relay.submit(relay.reference.order(), relay.reference.order())
    await relay.batcher().look()
    (batch,) = await relay.batches()
    await relay.carry()
    await relay.finish(2)
    assert await relay.states(job_ids) == ["completed"] * 2
    await relay.ask("anvil_reorg", 4, [])
    await relay.finish(1)
    assert (await relay.plane.state(batch), await relay.states(job_ids)) == ("retry", ["batched"] * 2)
    assert [one.succeeded for one in await relay.places(job_ids)] == [None, None]
    assert (await relay.record(job_ids[0])).result is None
    await relay.finish(4)
    assert (await relay.plane.state(batch), await relay.states(job_ids)) == ("completed", ["completed"] * 2)
    assert [one.succeeded for one in await relay.places(job_ids)] == [True, True]
    assert await relay.reference.view("orderCount") == 2


async def test_children_of_a_dead_batch_are_let_go_and_carried_by_another(relay: Relay) -> None:
    """Goal: INT-7, I10. Method: a cancelled batch; its children, released, stand at the front of the line again before
    who came later, and another batch carries all; the first is refused its replay, and its kind acts for nobody."""
    first = await relay.submit(relay.reference.order(), relay.reference.order())
    await relay.batcher().look()
    (batch,) = await relay.batches()
    await relay.control().cancel(batch, DEED)
    assert await types_of(relay, first) == ["BatchEnded"] * 2
    later = await relay.submit(relay.reference.order())
    assert await relay.release(batch) == 2
    assert await relay.states(first) == ["pending_batch"] * 2
    await relay.batcher().look()
    places = await relay.places([*first, *later])
    assert [one.child_index for one in places] == [0, 1, 2]
    assert {one.batch_job_id for one in places} == set(await relay.batches()) - {batch}
    async with relay.plane.database.connection() as connection:
        job = (await relay.plane.coordination.jobs_by_id(connection, [batch]))[batch]
    assert isinstance(await relay.kind.revalidate(job, relay.reference.endpoint), NotActionable)
    await relay.carry()
    await relay.finish()
    assert await relay.states([*first, *later]) == ["completed"] * 3


async def test_a_replayed_batch_takes_effect_with_all_its_children(relay: Relay) -> None:
    """Goal: INT-7. Method: a cancelled batch is replayed: its children are under it again before it runs."""
    job_ids = await relay.submit(relay.reference.order(), relay.reference.order())
    await relay.batcher().look()
    (batch,) = await relay.batches()
    await relay.control().cancel(batch, DEED)
    await relay.control().replay(batch, DEED)
    assert await relay.states(job_ids) == ["batched"] * 2
    await relay.carry()
    await relay.finish()
    assert await relay.states([batch, *job_ids]) == ["completed"] * 3


async def test_the_executor_is_looked_at_before_anything_is_sent(relay: Relay) -> None:
    """Goal: nothing is paid for a call that does nothing. Method: the executor's code is gone before the attempt; the
    attempt says so, and takes no nonce."""
    await relay.submit(relay.reference.order())
    await relay.batcher().look()
    await relay.ask("anvil_setCode", str(relay.reference.executor), "0x")
    (outcome,) = await relay.carry()
    assert isinstance(outcome, NotActionable)
    assert "no batch executor" in outcome.reason
    assert await relay.rows("SELECT count(*) FROM transactions.lineages") == [(0,)]


@pytest.mark.parametrize(("count", "padding"), [(1, 0), (1, 3_900), (12, 0), (12, 3_900)])
async def test_the_gas_that_is_asked_for_is_enough_for_the_worst(relay: Relay, count: int, padding: int) -> None:
    """Goal: INT-5: with the planned gas no child is ever given less than its stipend. Method: batches whose children
    all burn whatever they get, small and large, with exactly that gas: none reverts whole, each is logged."""
    reference = relay.reference
    recipient = await reference.set_code(BURNS)
    wanted = [reference.withdrawal(recipient) for _ in range(count)]
    # The contract reads what it needs of a payload, and pays for the rest.
    children = [
        reference.signed(evolve(one, payload=one.payload + b"\xff" * padding), stipend=200_000) for one in wanted
    ]
    carried = [Carried(relay.signed(one.intent), one.stipend) for one in children]
    receipt, results = await reference.execute(children, gas=gas_of(relay.contract, carried))
    assert receipt.succeeded
    assert [one.success for one in results] == [False] * count
    assert receipt.gas_used >= count * 190_000
