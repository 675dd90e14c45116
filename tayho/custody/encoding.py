"""Transactions as bytes, of each type that we sign: what is signed, what is broadcast, what signed bytes really say.

Written over `rlp` rather than taken from eth-account: that library signs chain id 0 and contract creations when a field
is missing, takes three times as long, and its import of py_ecc raises the interpreter's recursion limit so far that a
deeply nested JSON answer overflows the C stack. The tests hold these bytes against it and against published ones.
"""

from __future__ import annotations

from eth_utils.crypto import keccak
from rlp.exceptions import RLPException  # pyright: ignore[reportMissingTypeStubs]

from tayho.custody import eip1559, legacy
from tayho.custody.rlp_forms import Malformed
from tayho.custody.types import SigningRequest, Undecodable
from tayho.kernel.opaque import Opaque


def signing_digest(request: SigningRequest) -> bytes:
    """The 32 bytes that the signer signs."""
    return legacy.signing_digest(request) if request.transaction_type == 0 else eip1559.signing_digest(request)


def signed_bytes(request: SigningRequest, signature: bytes) -> Opaque:
    """The transaction as nodes take it. `signature` is 65 bytes: r, s, y parity."""
    form = legacy if request.transaction_type == 0 else eip1559
    return Opaque(form.signed_bytes(request, signature))


def transaction_hash(raw: Opaque) -> bytes:
    """Keccak-256 of the signed bytes: the name every node gives the transaction."""
    return bytes(keccak(raw.reveal()))


def decode(raw: Opaque) -> SigningRequest | Undecodable:
    """The request these bytes carry out, with the signer recovered from the signature rather than believed.

    Bad bytes are an answer and never an error: the frames of a raising decoder hold the signed bytes, and a renderer of
    tracebacks would print them (TX-2).
    """
    try:
        return _decoded(raw.reveal())
    except (RLPException, ValueError, RecursionError) as error:
        # Only a word travels on; the error itself, with its frames, ends here.
        return Undecodable(str(error) if isinstance(error, Malformed) else type(error).__name__)


def _decoded(raw: bytes) -> SigningRequest:
    if raw[:1] == eip1559.TYPE:
        return eip1559.decoded(raw)
    if raw and raw[0] >= legacy.LIST_PREFIX_MIN:
        return legacy.decoded(raw)
    raise Malformed("neither of type 2 nor legacy")
