"""What a node tells, as typed values: quantities are int, hashes and addresses bytes, absent is None.

Each value is a projection: exactly the fields that decisions and votes rest on (RPC-5). Fields that differ between
honest nodes (block timestamps in logs, L1 fees, blob prices, the form of the bloom) are left out.
"""

from __future__ import annotations

from decimal import Decimal

from attrs import field, frozen


def _hex(content: bytes | tuple[bytes, ...] | None) -> str:
    """Bytes as people know them from explorers and logs."""
    if isinstance(content, tuple):
        return f"({', '.join(_hex(item) for item in content)})"
    return "None" if content is None else "0x" + content.hex()


@frozen
class Header:
    """A block header. `base_fee_per_gas_wei` is None before London (EIP-1559)."""

    number: int
    hash: bytes = field(repr=_hex)
    parent_hash: bytes = field(repr=_hex)
    timestamp_seconds: int
    base_fee_per_gas_wei: int | None
    gas_limit: int
    gas_used: int
    receipts_root: bytes = field(repr=_hex)
    state_root: bytes = field(repr=_hex)
    transactions_root: bytes = field(repr=_hex)
    logs_bloom: bytes = field(repr=False)
    miner: bytes = field(repr=_hex)


@frozen
class Log:
    """An event of a mined transaction. `log_index` counts within the block; `removed` marks one undone by a reorg."""

    address: bytes = field(repr=_hex)
    topics: tuple[bytes, ...] = field(repr=_hex)
    data: bytes = field(repr=_hex)
    log_index: int
    removed: bool
    transaction_hash: bytes = field(repr=_hex)
    transaction_index: int
    block_hash: bytes = field(repr=_hex)
    block_number: int


@frozen
class Receipt:
    """The outcome of a mined transaction.

    Invariant: exactly one of `status` and `post_state_root` is there. Before Byzantium (EIP-658) a receipt tells the
    state root instead of the outcome; then neither `succeeded` nor `reverted` holds, and nothing may be concluded.
    """

    transaction_hash: bytes = field(repr=_hex)
    transaction_index: int
    block_hash: bytes = field(repr=_hex)
    block_number: int
    status: int | None
    post_state_root: bytes | None = field(repr=_hex)
    sender: bytes = field(repr=_hex)
    to: bytes | None = field(repr=_hex)
    contract_address: bytes | None = field(repr=_hex)
    gas_used: int
    cumulative_gas_used: int
    effective_gas_price_wei: int
    logs: tuple[Log, ...]
    type: int

    @property
    def succeeded(self) -> bool:
        return self.status == 1

    @property
    def reverted(self) -> bool:
        return self.status == 0


@frozen
class Transaction:
    """A transaction as the node knows it. Pending while the three block fields are None; else all three are there.

    For type 2 and above the two fee limits are there; `gas_price_wei` is then what was or would be paid.
    """

    hash: bytes = field(repr=_hex)
    type: int
    sender: bytes = field(repr=_hex)
    to: bytes | None = field(repr=_hex)
    nonce: int
    value_wei: int
    gas_limit: int
    input: bytes = field(repr=_hex)
    chain_id: int | None
    gas_price_wei: int | None
    max_fee_per_gas_wei: int | None
    max_priority_fee_per_gas_wei: int | None
    block_hash: bytes | None = field(repr=_hex)
    block_number: int | None
    transaction_index: int | None

    @property
    def is_pending(self) -> bool:
        return self.block_hash is None


@frozen
class FeeHistory:
    """Fees of `n` consecutive blocks from `oldest_block` on.

    `base_fee_per_gas_wei` has n + 1 entries, the last for the block after. `gas_used_ratio` is the part of each
    block's gas limit that was used. `reward_wei` has a row per block and a column per percentile asked.
    """

    oldest_block: int
    base_fee_per_gas_wei: tuple[int, ...]
    gas_used_ratio: tuple[Decimal, ...]
    reward_wei: tuple[tuple[int, ...], ...]
