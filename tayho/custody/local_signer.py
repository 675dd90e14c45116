"""Signing with keys held in this process."""

from __future__ import annotations

from attrs import fields

from tayho.custody.encoding import decode, signed_bytes, signing_digest, transaction_hash
from tayho.custody.errors import SignatureMismatch, SigningFailed, SigningRefused, UnknownSigner
from tayho.custody.key_material import KeyMaterial
from tayho.custody.key_rings import SignerKeys
from tayho.custody.recoverable import sign_recoverable
from tayho.custody.types import Refusal, Reservation, SignedTransaction, SigningPolicy, SigningRequest, Undecodable
from tayho.custody.validation import field_refusals, refusals
from tayho.kernel.address import Address
from tayho.kernel.opaque import Opaque


class LocalSigner:
    """Signs transactions deterministically (RFC 6979): one request gives the same bytes in every replica.

    libsecp256k1 signs, called directly: through eth-keys a variable in the environment chooses the backend.
    """

    def __init__(self, keys: SignerKeys, policy: SigningPolicy) -> None:
        self._keys = keys
        self._policy = policy

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The signers of the pool, in the order of the configuration."""
        return self._keys.addresses

    def refusals(self, request: SigningRequest) -> tuple[Refusal, ...]:
        """What `sign` would refuse in the request itself."""
        return field_refusals(request, self._policy)

    def sign(self, request: SigningRequest, reservation: Reservation) -> SignedTransaction:
        """Check every rule, sign, then read the signed bytes back and hold all of them against the request.

        Takes well under a millisecond of CPU. Raises SigningRefused (with every broken rule), UnknownSigner,
        SigningFailed, and SignatureMismatch when the bytes say anything else or another key made them.
        """
        broken = refusals(request, self._policy, reservation)
        if broken:
            raise SigningRefused(broken)
        material = self._keys.keys.get(request.signer)
        if material is None:
            raise UnknownSigner(request.signer)
        raw = _signed(request, material)
        if isinstance(raw, str):
            raise SigningFailed(request.signer, request.nonce, library_error=raw)
        differs = _differences(request, decode(raw))
        if differs:
            raise SignatureMismatch(request.signer, request.nonce, differs)
        return SignedTransaction(transaction_hash(raw), raw)


def _signed(request: SigningRequest, material: KeyMaterial) -> Opaque | str:
    """The signed bytes, or the class name of what the library raised.

    Key and signature are locals of this frame and those below, which must never be part of a traceback: so it returns.
    """
    digest = signing_digest(request)
    with material.revealed() as octets:
        try:
            signature = sign_recoverable(digest, octets)
        except Exception as error:  # noqa: BLE001 - becomes SigningFailed
            return type(error).__name__
    return signed_bytes(request, signature)


def _differences(request: SigningRequest, decoded: SigningRequest | Undecodable) -> tuple[str, ...]:
    if isinstance(decoded, Undecodable):
        return (f"form ({decoded.why})",)
    names = (attribute.name for attribute in fields(SigningRequest))
    return tuple(name for name in names if getattr(request, name) != getattr(decoded, name))
