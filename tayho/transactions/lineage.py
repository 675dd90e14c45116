"""A lineage as the engine works on it."""

from __future__ import annotations

from uuid import UUID

from attrs import frozen

from tayho.kernel.address import Address
from tayho.kernel.call_hash import call_hash
from tayho.kernel.opaque import Opaque
from tayho.kinds import Call
from tayho.transactions.fees import Fee


@frozen
class Lineage:
    """The one (chain, signer, nonce, call hash) of a job, or of a filler, and how far it has come."""

    lineage_id: UUID
    purpose: str
    job_id: UUID | None
    chain_id: int
    signer: Address
    nonce: int
    call: Call
    call_hash: bytes
    state: str
    active_tx_hash: bytes | None = None


@frozen
class SignedMember:
    """A signed transaction on its way into the journal and, after that, to a node."""

    lineage: Lineage
    tx_hash: bytes
    raw: Opaque
    gas_limit: int
    fee: Fee
    key_id: str
    cipher_nonce: bytes
    ciphertext: bytes


def filler_call(signer: Address) -> Call:
    """A zero-value transfer to oneself: it does nothing and uses up one nonce."""
    return Call(to=signer, data=b"", value_wei=0)


def filler_call_hash(chain_id: int, signer: Address) -> bytes:
    call = filler_call(signer)
    return call_hash(chain_id, call.to, call.value_wei, call.data)
