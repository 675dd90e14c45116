"""The reference executor as batches are planned for it and judged by it (INT-5, INT-7, INT-9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from attrs import frozen

from rpc import methods
from rpc.errors import Reverted
from rpc.reads import Reads
from rpc.values import Log, Receipt
from tayho.intents.types import Carried, ChildResult, SignedIntent
from tayho.kernel.address import Address
from tayho.kinds import ResultMissing
from tayho.protocol import abi
from tayho.protocol.intents import EXECUTOR, PROTOCOL, arguments_of

# The contract's own: what it keeps back for a child's log and the loop around it.
CHILD_OVERHEAD_GAS = 12_000
# What it spends on a child before it looks whether the gas is enough, but for the copying of its bytes.
CHILD_SETUP_GAS = 6_000
# Entering and leaving: its lock, the protocol's cold account, the last log.
BATCH_GAS = 20_000
# The child is copied as the call's data and for its digest, and hashed there.
COPY_GAS_PER_WORD = 24
WORD_BYTES = 32


@frozen
class ReferenceExecutor:
    """One BatchExecutor and the Protocol that it serves."""

    address: Address
    protocol: Address

    def alone(self, signed: SignedIntent, gas_limit: int) -> methods.CallRequest:
        """As the executor calls the protocol: sent by it, without a value."""
        data = abi.encode_call(PROTOCOL, "execute", (arguments_of(signed.intent), signed.signature))
        return methods.CallRequest(self.address.value, self.protocol.value, data, gas_limit=gas_limit)

    def call_data(self, batch_id: bytes, children: Sequence[Carried]) -> bytes:
        """`executeBatch`."""
        carried = tuple(
            (arguments_of(child.signed.intent), child.signed.signature, child.gas_stipend) for child in children
        )
        return abi.encode_call(EXECUTOR, "executeBatch", (batch_id, carried))

    def execution_gas(self, call_data: bytes, children: Sequence[Carried]) -> int:
        """What the contract asks to have left before each child, with what it spends between them."""
        words = -(-len(call_data) // WORD_BYTES)
        memory = 2 * words + 64
        expansion = 3 * memory + memory * memory // 512
        needed = sum(child.gas_stipend + child.gas_stipend // 63 + CHILD_OVERHEAD_GAS for child in children)
        return BATCH_GAS + expansion + COPY_GAS_PER_WORD * words + needed + CHILD_SETUP_GAS * len(children)

    def stipend_within(self, execution_gas: int) -> int:
        """A call gets at most 63/64 of what is left (EIP-150)."""
        return (execution_gas - CHILD_OVERHEAD_GAS - CHILD_SETUP_GAS) * 63 // 64

    def results_in(self, receipt: Receipt) -> list[ChildResult]:
        """Raises ResultMissing."""
        topic = abi.event_topic(EXECUTOR, "ChildExecuted")
        return [
            _result(log) for log in receipt.logs if log.address == self.address.value and log.topics[:1] == (topic,)
        ]

    def refusal(self, data: bytes) -> str | None:
        """By the errors of both contracts."""
        named = abi.decode_error(PROTOCOL, data) or abi.decode_error(EXECUTOR, data)
        return None if named is None else named.name

    async def problem(self, reads: Reads) -> str | None:
        """Ask the executor for its protocol: a call to an account without code would succeed and do nothing."""
        data = abi.encode_call(EXECUTOR, "protocol")
        try:
            answer = await reads.ask(methods.call(methods.CallRequest(bytes(20), self.address.value, data), "latest"))
            (served,) = abi.decode_result(EXECUTOR, "protocol", answer)
        except (Reverted, abi.ResultRefused):
            return f"there is no batch executor at BATCH_EXECUTOR_ADDRESS, {self.address}"
        if served != self.protocol:
            return f"the batch executor at {self.address} serves {served}, and PROTOCOL_ADDRESS is {self.protocol}"
        return None


def _result(log: Log) -> ChildResult:
    try:
        found = abi.decode_event(EXECUTOR, "ChildExecuted", log.topics, log.data)
    except abi.LogRefused as error:
        raise ResultMissing(f"a log of the executor cannot be read: {error}") from error
    return ChildResult(
        batch_id=cast("bytes", found["batchId"]),
        child_index=cast("int", found["index"]),
        digest=cast("bytes", found["digest"]),
        succeeded=cast("bool", found["success"]),
        return_data_digest=cast("bytes", found["returnDataDigest"]),
    )
