"""What a node tells, as typed values: quantities are int, hashes and addresses bytes, absent is None.

Each value is a projection: exactly the fields that decisions, votes and proofs rest on (RPC-5, RPC-11). Fields that
differ between honest nodes (block timestamps in logs, L1 fees, blob prices) are left out, or no part of equality.
"""

from __future__ import annotations

from decimal import Decimal

from attrs import field, frozen


def shown_hex(content: bytes | tuple[bytes, ...] | None) -> str:
    """Bytes as people know them from explorers and logs."""
    if isinstance(content, tuple):
        return f"({', '.join(shown_hex(item) for item in content)})"
    return "None" if content is None else "0x" + content.hex()


@frozen
class Header:
    """A block header, with every field that its hash is made of through Osaka.

    A field is None where the block's fork did not have it yet: `base_fee_per_gas_wei` before London (EIP-1559), the
    fields after it before Shanghai, Cancun and Prague. The proof-of-work fields are None only where a node leaves them
    out; then the hash cannot be recomputed (`rpc.proofs.header_hash`).
    """

    number: int
    hash: bytes = field(repr=shown_hex)
    parent_hash: bytes = field(repr=shown_hex)
    timestamp_seconds: int
    base_fee_per_gas_wei: int | None
    gas_limit: int
    gas_used: int
    receipts_root: bytes = field(repr=shown_hex)
    state_root: bytes = field(repr=shown_hex)
    transactions_root: bytes = field(repr=shown_hex)
    logs_bloom: bytes = field(repr=False)
    miner: bytes = field(repr=shown_hex)
    uncles_hash: bytes | None = field(default=None, repr=shown_hex)
    difficulty: int | None = None
    extra_data: bytes | None = field(default=None, repr=shown_hex)
    mix_hash: bytes | None = field(default=None, repr=shown_hex)
    nonce: bytes | None = field(default=None, repr=shown_hex)
    withdrawals_root: bytes | None = field(default=None, repr=shown_hex)
    blob_gas_used: int | None = None
    excess_blob_gas: int | None = None
    parent_beacon_block_root: bytes | None = field(default=None, repr=shown_hex)
    requests_hash: bytes | None = field(default=None, repr=shown_hex)
    # What else the node told of the block: a later fork's field may be among it, and is then named where the hash does
    # not come out. Nodes add their own, so it is no part of a vote.
    unknown_members: tuple[str, ...] = field(default=(), eq=False)


@frozen
class Log:
    """An event of a mined transaction. `log_index` counts within the block; `removed` marks one undone by a reorg."""

    address: bytes = field(repr=shown_hex)
    topics: tuple[bytes, ...] = field(repr=shown_hex)
    data: bytes = field(repr=shown_hex)
    log_index: int
    removed: bool
    transaction_hash: bytes = field(repr=shown_hex)
    transaction_index: int
    block_hash: bytes = field(repr=shown_hex)
    block_number: int


@frozen
class Receipt:
    """The outcome of a mined transaction.

    Invariant: exactly one of `status` and `post_state_root` is there. Before Byzantium (EIP-658) a receipt tells the
    state root instead of the outcome; then neither `succeeded` nor `reverted` holds, and nothing may be concluded.
    """

    transaction_hash: bytes = field(repr=shown_hex)
    transaction_index: int
    block_hash: bytes = field(repr=shown_hex)
    block_number: int
    status: int | None
    post_state_root: bytes | None = field(repr=shown_hex)
    sender: bytes = field(repr=shown_hex)
    to: bytes | None = field(repr=shown_hex)
    contract_address: bytes | None = field(repr=shown_hex)
    gas_used: int
    cumulative_gas_used: int
    effective_gas_price_wei: int
    logs: tuple[Log, ...]
    type: int
    # Follows from the logs. Some nodes leave it out, so it is no part of a vote; where told, a proof checks it.
    logs_bloom: bytes | None = field(default=None, eq=False, repr=False)

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

    hash: bytes = field(repr=shown_hex)
    type: int
    sender: bytes = field(repr=shown_hex)
    to: bytes | None = field(repr=shown_hex)
    nonce: int
    value_wei: int
    gas_limit: int
    input: bytes = field(repr=shown_hex)
    chain_id: int | None
    gas_price_wei: int | None
    max_fee_per_gas_wei: int | None
    max_priority_fee_per_gas_wei: int | None
    block_hash: bytes | None = field(repr=shown_hex)
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


@frozen
class StorageProof:
    """One slot of a contract's storage, and the trie nodes from the storage root down to its place."""

    slot: int
    value: int
    nodes: tuple[bytes, ...] = field(repr=False)


@frozen
class AccountProof:
    """What a node says about an account at one block, with the trie nodes that prove it against the block's state root.

    Nothing here is proven by itself: `rpc.proofs.verify_account` does that. An account that does not exist has nonce
    and balance 0, and nodes that end beside its place.
    """

    address: bytes = field(repr=shown_hex)
    nonce: int
    balance_wei: int
    code_hash: bytes = field(repr=shown_hex)
    storage_root: bytes = field(repr=shown_hex)
    nodes: tuple[bytes, ...] = field(repr=False)
    storage: tuple[StorageProof, ...]
