"""Whether an account is what a node says, by the state root of a block: nonce, balance, code, storage, or nothing."""

from __future__ import annotations

from collections.abc import Sequence

from eth_utils.crypto import keccak

from rpc.proof_errors import ProofRefuted
from rpc.quantities import as_data
from rpc.rlp_items import encode, integer
from rpc.trie import EMPTY_ROOT, BadProof, proven
from rpc.values import AccountProof, StorageProof

EMPTY_CODE_HASH = bytes(keccak(b""))
_NO_HASH = bytes(32)


def verify_account(state_root: bytes, address: bytes, proof: AccountProof, slots: Sequence[int] = ()) -> None:
    """Return when the account, and its storage at `slots`, are what `proof` says. Raises ProofRefuted.

    `state_root` is that of a verified header. An account that the state does not hold is proven too: nonce and balance
    are then 0, without code and storage.
    """
    subject = f"account {as_data(address)} under state root {as_data(state_root)}"
    if proof.address != address:
        raise ProofRefuted(subject, "the address", as_data(address), as_data(proof.address))
    if [item.slot for item in proof.storage] != list(slots):
        raise ProofRefuted(subject, "the list of storage slots", "the one asked for", "another")
    held = _proven(subject, state_root, bytes(keccak(address)), proof.nodes)
    if held is None:
        _require_nothing(subject, proof)
    elif held != _account_bytes(proof):
        raise ProofRefuted(subject, "the account", as_data(held), as_data(_account_bytes(proof)))
    for item in proof.storage:
        _verify_slot(subject, EMPTY_ROOT if held is None else proof.storage_root, item)


def _account_bytes(proof: AccountProof) -> bytes:
    return encode([integer(proof.nonce), integer(proof.balance_wei), proof.storage_root, proof.code_hash])


def _require_nothing(subject: str, proof: AccountProof) -> None:
    """An account that is not there has no nonce, balance, code or storage. Nodes write its hashes in two ways."""
    empty = (
        proof.nonce == 0
        and proof.balance_wei == 0
        and proof.code_hash in {EMPTY_CODE_HASH, _NO_HASH}
        and proof.storage_root in {EMPTY_ROOT, _NO_HASH}
    )
    if not empty:
        raise ProofRefuted(subject, "the account", "no account", as_data(_account_bytes(proof)))


def _verify_slot(subject: str, storage_root: bytes, item: StorageProof) -> None:
    one = f"{subject}, slot {item.slot:#x}"
    held = _proven(one, storage_root, bytes(keccak(item.slot.to_bytes(32, "big"))), item.nodes)
    told = None if item.value == 0 else encode(integer(item.value))
    if held != told:
        shown = "0" if held is None else as_data(held)
        raise ProofRefuted(one, "the value", shown, f"{item.value:#x}")


def _proven(subject: str, root: bytes, key: bytes, nodes: Sequence[bytes]) -> bytes | None:
    try:
        return proven(root, key, nodes)
    except BadProof as error:
        raise ProofRefuted(subject, "the proof", "nodes that lead from its root to the place", str(error)) from error
