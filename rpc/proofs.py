"""Proofs instead of votes (RPC-11): what one agreed header says of receipts, transactions and accounts. Pure.

Start with `verify_header`: the roots of a header are worth what its hash is worth, and the hash is what a quorum
agreed on or what a walk along parent hashes reached.
"""

from rpc.account_proofs import verify_account
from rpc.header_proofs import header_hash, verify_header
from rpc.proof_errors import NotProven, ProofRefuted, Unprovable
from rpc.receipt_proofs import (
    Recover,
    receipts_root,
    sender_of,
    transactions_root,
    verify_receipt,
    verify_receipts,
    verify_transactions,
)

__all__ = [
    "NotProven",
    "ProofRefuted",
    "Recover",
    "Unprovable",
    "header_hash",
    "receipts_root",
    "sender_of",
    "transactions_root",
    "verify_account",
    "verify_header",
    "verify_receipt",
    "verify_receipts",
    "verify_transactions",
]
