"""Whether a block that one endpoint tells is the one of a hash, and what it says of receipts claimed in it. Pure.

Only the hash has to be agreed: header, transactions and receipts all follow from it, whoever tells them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from attrs import field, frozen

from rpc.block_transactions import BlockInFull, OtherTransaction, SignedTransaction
from rpc.header_proofs import verify_header
from rpc.proof_errors import ProofRefuted
from rpc.receipt_proofs import Recover, verify_receipt, verify_receipts, verify_transactions
from rpc.rendering import rendered
from rpc.values import Header, Receipt

# What the receipts root covers; the rest of a receipt follows from the transaction (`verify_receipt`).
_COVERED = (
    "transaction_index",
    "block_hash",
    "block_number",
    "status",
    "post_state_root",
    "gas_used",
    "cumulative_gas_used",
    "logs",
    "type",
)


@frozen
class ProvenBlock:
    """A block whose fields, transactions and receipts make its hash, with the receipts that were wanted of it."""

    header: Header
    _found: Mapping[bytes, tuple[Receipt, SignedTransaction | OtherTransaction]] = field(repr=False)
    _recover: Recover = field(repr=False)

    def check(self, transaction_hash: bytes, claim: Receipt) -> None:
        """Return when this is the block's receipt of a wanted transaction. Raises ProofRefuted where it is not."""
        subject = f"receipt of transaction 0x{transaction_hash.hex()}"
        found = self._found.get(transaction_hash)
        if found is None:
            place = str(claim.transaction_index)
            raise ProofRefuted(subject, "its place in the block", "that no such transaction is there", place)
        receipt, transaction = found
        verify_receipt(self.header, claim, transaction, self._recover)
        for name in _COVERED:
            expected, told = getattr(receipt, name), getattr(claim, name)
            if expected != told:
                raise ProofRefuted(subject, name, rendered(expected), rendered(told))


def proven_block(
    told: BlockInFull, receipts: Sequence[Receipt], wanted: Collection[bytes], recover: Recover
) -> ProvenBlock:
    """The block, once everything that was told of it follows from its hash, so far as it is wanted.

    Raises ProofRefuted where it contradicts itself: the endpoint lies. Raises Unprovable for what we cannot hash.
    """
    verify_header(told.header)
    verify_transactions(told.header, told.transactions)
    verify_receipts(told.header, receipts)
    found: dict[bytes, tuple[Receipt, SignedTransaction | OtherTransaction]] = {}
    for receipt, transaction in zip(receipts, told.transactions, strict=False):
        if transaction.hash in wanted:
            verify_receipt(told.header, receipt, transaction, recover)
            found[transaction.hash] = receipt, transaction
    return ProvenBlock(told.header, found, recover)
