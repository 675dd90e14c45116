"""Counting effects where they happened: in the chain's own event logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from types import MappingProxyType

from attrs import define, field

from rpc import methods
from rpc.reads import Reads
from rpc.values import Log
from tayho.kernel.address import Address
from tayho.protocol import abi, artifacts

# The event by which each role shows its work. The relayer's are the intents themselves.
ROLE_EVENTS: Mapping[str, str] = MappingProxyType(
    {
        "relayer": "IntentExecuted",
        "automation": "OrderExecuted",
        "funding-oracle": "FundingPosted",
        "depth-attester": "DepthAttested",
        "resolution-attester": "MarketResolved",
        "guardian": "MarketPaused",
        "revenue": "RevenueDistributed",
        "payouts": "ClaimPaid",
    }
)
_COUNTED = (*ROLE_EVENTS.values(), "OrderPlaced", "ClaimMade")
_EXECUTED = "IntentExecuted"
_CARRIED = "ChildExecuted"

_PROTOCOL = artifacts.load("Protocol")
_EXECUTOR = artifacts.load("BatchExecutor")
_NAMES = {abi.event_topic(_PROTOCOL, name): name for name in _COUNTED} | {
    abi.event_topic(_EXECUTOR, _CARRIED): _CARRIED
}


@define
class ChainTally:
    """What the contracts' logs say from the first block on."""

    protocol: Address
    executor: Address
    _events: Counter[str] = field(factory=Counter[str], init=False)
    # How often each intent was executed, by its digest.
    _executions: Counter[bytes] = field(factory=Counter[bytes], init=False)
    # Children that a batch executed with success, by the batch.
    _carried: Counter[bytes] = field(factory=Counter[bytes], init=False)
    _next_block: int = field(default=0, init=False)

    async def look(self, reads: Reads) -> None:
        """Read what came since the last look. The demo's chain takes nothing back. Raises RpcError."""
        head = await reads.ask(methods.block_number())
        if head < self._next_block:
            return
        wanted = methods.logs(
            (self._next_block, head), addresses=[self.protocol.value, self.executor.value], topics=[list(_NAMES)]
        )
        for log in await reads.ask(wanted):
            self.count(log)
        self._next_block = head + 1

    def events(self, name: str) -> int:
        return self._events[name]

    @property
    def roles(self) -> dict[str, int]:
        """How often each role's work is on the chain."""
        return {role: self._events[name] for role, name in ROLE_EVENTS.items()}

    @property
    def children_per_batch(self) -> list[int]:
        """One number for each batch that executed anything."""
        return list(self._carried.values())

    def duplicates(self, digests: Collection[bytes]) -> int:
        """Executions beyond the first of each of these intents; one that belongs to none of them is as bad."""
        return self._executions.total() - len(self._executions.keys() & set(digests))

    def missing(self, digests: Collection[bytes]) -> int:
        """How many of these intents were never executed."""
        return len(set(digests) - self._executions.keys())

    def count(self, log: Log) -> None:
        """Take one log of the contracts in."""
        name = _NAMES[log.topics[0]]
        if name == _CARRIED:
            self._carried[log.topics[1]] += bool(abi.decode_event(_EXECUTOR, name, log.topics, log.data)["success"])
            return
        self._events[name] += 1
        if name == _EXECUTED:
            self._executions[log.topics[1]] += 1
