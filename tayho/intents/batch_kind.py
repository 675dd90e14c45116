"""The kind of a batch: one transaction that carries many intents, each ended by its own log (INT-5, INT-7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast
from uuid import UUID

from attrs import frozen

from rpc.reads import Reads
from rpc.values import Receipt
from storage.database import Connection, Database
from tayho.contracts.coordination import Coordination, Settlement
from tayho.intents import store
from tayho.intents.batch_rules import judge
from tayho.intents.constants import BATCH_KIND, ROLE
from tayho.intents.types import BatchContract, Carried, Child, ChildResult
from tayho.kernel.address import Address
from tayho.kernel.jobs import Job, NotActionable, RequestRefused
from tayho.kernel.json_document import Json
from tayho.kinds import Actionable, Call, ResultMissing, Revalidation

# The contract at an address, for the protocol at another.
ContractAt: TypeAlias = Callable[[Address, Address], BatchContract]


@frozen
class BatchRequest:
    """What a batch's job says of it for ever: which contract carries whom, and with how much gas at least."""

    executor: Address
    protocol: Address
    digests: Sequence[bytes]
    gas_limit_min: int

    def document(self) -> dict[str, Json]:
        return {
            "executor": str(self.executor),
            "protocol": str(self.protocol),
            "children": [f"0x{digest.hex()}" for digest in self.digests],
            "gas_limit_min": self.gas_limit_min,
        }

    @classmethod
    def of(cls, job: Job) -> BatchRequest:
        """Raises RequestRefused: nobody but the coordinator makes such jobs."""
        whole = cast("dict[str, Any]", job.request)
        try:
            return cls(
                executor=Address.parse(whole["executor"]),
                protocol=Address.parse(whole["protocol"]),
                digests=[bytes.fromhex(digest.removeprefix("0x")) for digest in whole["children"]],
                gas_limit_min=int(whole["gas_limit_min"]),
            )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise RequestRefused(f"a {BATCH_KIND} job is made by the coordinator alone: {error!r}") from error


class BatchKind:
    """`intents.batch`: executes the children of its own rows, and ends each by what the executor logged of it."""

    name: str = BATCH_KIND
    role: str = ROLE

    def __init__(self, database: Database, coordination: Coordination, contract_at: ContractAt) -> None:
        self._database = database
        self._coordination = coordination
        self._contract_at = contract_at

    async def revalidate(self, job: Job, reads: Reads) -> Revalidation:
        """Wanted while its children are its own, and where the executor is what it should be. Raises RpcError."""
        request = BatchRequest.of(job)
        if any(child.state != "live" for child in await self._children(job)):
            return NotActionable("its children were released, and another batch carries them")
        problem = await self._contract_at(request.executor, request.protocol).problem(reads)
        return Actionable() if problem is None else NotActionable(problem)

    async def call(self, job: Job) -> Call:
        """From the children's own rows, which never change; RequestRefused where they are not those of the request."""
        request = BatchRequest.of(job)
        children = await self._children(job)
        if [child.waiting.digest for child in children] != list(request.digests):
            raise RequestRefused("its rows are not the children of its request")
        contract = self._contract_at(request.executor, request.protocol)
        carried = [Carried(child.waiting.signed, child.gas_stipend) for child in children]
        return Call(contract.address, contract.call_data(batch_id(job), carried), gas_limit_min=request.gas_limit_min)

    def revert_reason(self, data: bytes) -> str | None:
        """By the errors of the contracts; their address does not matter to a name."""
        return self._contract_at(Address(bytes(20)), Address(bytes(20))).refusal(data)

    def result_of(self, job: Job, receipt: Receipt) -> Json:
        """How many succeeded, and which did not. Raises ResultMissing."""
        results = self._results(job, receipt)
        failed = [one.child_index for one in results if not one.succeeded]
        return {"children": len(results), "succeeded": len(results) - len(failed), "failed": [*failed]}

    async def settle(self, tx: Connection, job: Job, receipt: Receipt) -> None:
        """End every child by its own log, all in the transaction that ends the batch. Raises ResultMissing."""
        results = self._results(job, receipt)
        rows = await store.SETTLE_CHILDREN(
            tx,
            job.job_id,
            [one.child_index for one in results],
            [one.succeeded for one in results],
            [one.return_data_digest for one in results],
        )
        by_index = {row["child_index"]: row["job_id"] for row in rows}
        if len(by_index) != len(results):
            raise ResultMissing(f"{len(results)} children have results, and {len(by_index)} are this batch's to settle")
        settled = await self._coordination.settle_if_batched(
            tx, job.job_id, [_settlement(by_index[one.child_index], job, one, receipt) for one in results]
        )
        if len(settled) != len(results):
            raise ResultMissing(f"{len(results)} children have results, and {len(settled)} jobs wait under this batch")

    async def unsettle(self, tx: Connection, job: Job) -> None:
        """Their places are open again: the next logs settle them."""
        await store.PERMIT_RESTORE(tx)
        await store.RESTORE_CHILDREN(tx, job.job_id)

    def _results(self, job: Job, receipt: Receipt) -> list[ChildResult]:
        request = BatchRequest.of(job)
        contract = self._contract_at(request.executor, request.protocol)
        return judge(batch_id(job), request.digests, contract.results_in(receipt))

    async def _children(self, job: Job) -> list[Child]:
        async with self._database.connection() as connection:
            rows = await store.CHILDREN_OF_BATCH(connection, job.job_id)
        return [store.child_of(row) for row in rows]


def batch_id(job: Job) -> bytes:
    """The batch's name on the chain: its job's id, with zeros on the left."""
    return job.job_id.bytes.rjust(32, b"\0")


def _settlement(job_id: UUID, job: Job, result: ChildResult, receipt: Receipt) -> Settlement:
    detail: dict[str, Json] = {
        "batch_job_id": str(job.job_id),
        "child_index": result.child_index,
        "return_data_digest": f"0x{result.return_data_digest.hex()}",
        "tx_hash": f"0x{receipt.transaction_hash.hex()}",
        "block_number": receipt.block_number,
        "block_hash": f"0x{receipt.block_hash.hex()}",
    }
    if result.succeeded:
        return Settlement(job_id, "completed", detail)
    message = "the protocol refused the intent when its batch was executed; its siblings went on"
    return Settlement(job_id, "dead", {"type": "IntentFailed", "message": message, **detail})
