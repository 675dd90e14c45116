"""How much one transaction may carry, and what its logs must say: pure (INT-5, INT-6, INT-7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from attrs import frozen

from tayho.intents.types import BatchContract, BatchSettings, Carried, ChildResult, Waiting
from tayho.kinds import ResultMissing

BASIS_POINTS = 10_000
TRANSACTION_GAS = 21_000
# EIP-7825, and what the journal keeps of a call.
GAS_LIMIT_MAX = 2**24
CALL_DATA_BYTES_MAX = 128 * 1024
# EIP-2028, EIP-7623: a byte that is not zero is four tokens.
GAS_PER_TOKEN, FLOOR_GAS_PER_TOKEN = 4, 10
# A batch's id and a stipend before they are known: none costs more to send.
ANY_BATCH = b"\xff" * 32
ANY_STIPEND = 2**32 - 1


@frozen
class Estimated:
    """The gas that a transaction of the intent's own would need now, that of a transaction included."""

    gas: int


@frozen
class Unbatchable:
    """No batch can carry the intent. `code` is why in a word, `reason` for people."""

    code: str
    reason: str


@frozen
class Undecided:
    """It could not be found out this time: the line waits for it."""

    reason: str


Sized: TypeAlias = Estimated | Unbatchable | Undecided


@frozen
class Entry:
    """One intent of the line's front, as it was decided about: carried, or why it never can be."""

    waiting: Waiting
    verdict: Carried | Unbatchable


def tokens_of(call_data: bytes) -> int:
    """What the bytes count as (EIP-7623)."""
    return 4 * len(call_data) - 3 * call_data.count(0)


def before_execution(call_data: bytes) -> int:
    """The gas that a transaction with these bytes costs before anything is executed."""
    return TRANSACTION_GAS + GAS_PER_TOKEN * tokens_of(call_data)


def transaction_gas(call_data: bytes, execution_gas: int) -> int:
    """The gas limit under which so much is left to execute; never below what the bytes alone are charged (EIP-7623)."""
    floor = TRANSACTION_GAS + FLOOR_GAS_PER_TOKEN * tokens_of(call_data)
    return max(before_execution(call_data) + execution_gas, floor)


def gas_cap(block_gas_limit: int, settings: BatchSettings) -> int:
    """The most gas that one batch may ask for now: the block's share, the absolute cap, and a transaction's own."""
    share = block_gas_limit * settings.block_share_basis_points // BASIS_POINTS
    return min(share, settings.gas_max, GAS_LIMIT_MAX)


def gas_of(contract: BatchContract, children: Sequence[Carried]) -> int:
    """The gas limit of a batch of these: with less, one of them could be given less than its stipend."""
    call_data = contract.call_data(ANY_BATCH, children)
    return transaction_gas(call_data, contract.execution_gas(call_data, children))


def fits(contract: BatchContract, children: Sequence[Carried], cap: int) -> bool:
    """Whether one transaction can carry them all."""
    call_data = contract.call_data(ANY_BATCH, children)
    return (
        len(call_data) <= CALL_DATA_BYTES_MAX
        and transaction_gas(call_data, contract.execution_gas(call_data, children)) <= cap
    )


def carried(
    contract: BatchContract, waiting: Waiting, estimated: Estimated, settings: BatchSettings, cap: int
) -> Carried | Unbatchable:
    """The intent with its stipend: what it needed alone, and the buffer, as far as a batch of it alone has room."""
    own = contract.alone(waiting.signed, cap).data
    needed = max(estimated.gas - before_execution(own), 1)
    call_data = contract.call_data(ANY_BATCH, [Carried(waiting.signed, ANY_STIPEND)])
    left = cap - before_execution(call_data) - contract.execution_gas(call_data, [])
    room = contract.stipend_within(left)
    if needed > room or not fits(contract, [Carried(waiting.signed, needed)], cap):
        return Unbatchable(
            "too_much_gas", f"it needs {needed} gas, and a batch that may have {cap} has room for {max(room, 0)}"
        )
    buffered = -(-needed * (BASIS_POINTS + settings.gas_buffer_basis_points) // BASIS_POINTS)
    return Carried(waiting.signed, min(buffered, room))


def largest_prefix(contract: BatchContract, children: Sequence[Carried], items_max: int, cap: int) -> int:
    """How many of the first children one transaction can carry: more never fit where fewer do not."""
    fitting, beyond = 0, min(len(children), items_max) + 1
    while beyond - fitting > 1:
        middle = (fitting + beyond) // 2
        if fits(contract, children[:middle], cap):
            fitting = middle
        else:
            beyond = middle
    return fitting


def plan(
    contract: BatchContract, line: Sequence[tuple[Waiting, Sized]], settings: BatchSettings, cap: int
) -> list[Entry]:
    """The front of the line, as far as it is decided and fits: those carried, and between them those never to be."""
    entries: list[Entry] = []
    for waiting, sized in line:
        if isinstance(sized, Undecided):
            break
        verdict = carried(contract, waiting, sized, settings, cap) if isinstance(sized, Estimated) else sized
        entries.append(Entry(waiting, verdict))
    children = [entry.verdict for entry in entries if isinstance(entry.verdict, Carried)]
    left = largest_prefix(contract, children, settings.items_max, cap)
    for place, entry in enumerate(entries):
        if isinstance(entry.verdict, Carried):
            if left == 0:
                return entries[:place]
            left -= 1
    return entries


def judge(batch_id: bytes, digests: Sequence[bytes], found: Sequence[ChildResult]) -> list[ChildResult]:
    """Each child's one result, in the order of the children. Raises ResultMissing where the logs say anything else.

    `found` is all that the executor itself logged: what others log is not its word, and nobody's but a stranger's.
    """
    results: dict[int, ChildResult] = {}
    for one in found:
        if one.batch_id != batch_id:
            raise ResultMissing(f"the executor logged a child of another batch, 0x{one.batch_id.hex()}")
        if one.child_index >= len(digests):
            raise ResultMissing(f"the executor logged child {one.child_index} of {len(digests)}")
        if one.digest != digests[one.child_index]:
            raise ResultMissing(f"the executor logged 0x{one.digest.hex()} as child {one.child_index}: it is another")
        if one.child_index in results:
            raise ResultMissing(f"the executor logged child {one.child_index} twice")
        results[one.child_index] = one
    missing = [index for index in range(len(digests)) if index not in results]
    if missing:
        raise ResultMissing(f"the executor logged nothing of children {missing}")
    return [results[index] for index in range(len(digests))]
