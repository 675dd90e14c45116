"""Signing with keys held in this process."""

from __future__ import annotations

from typing import Any, cast

from attrs import fields
from eth_account.account import Account
from eth_keys.backends.coincurve import CoinCurveECCBackend
from eth_keys.datatypes import PrivateKey

from tayho.custody.eip1559 import Undecodable, decode, transaction_hash
from tayho.custody.errors import NativeBackendMissing, SignatureMismatch, SigningFailed, SigningRefused, UnknownSigner
from tayho.custody.key_material import KeyMaterial
from tayho.custody.key_rings import SignerKeys
from tayho.custody.types import Reservation, SignedTransaction, SigningPolicy, SigningRequest
from tayho.custody.validation import refusals
from tayho.kernel.address import Address
from tayho.kernel.opaque import Opaque


class LocalSigner:
    """Signs EIP-1559 transactions, deterministically (RFC 6979): one request gives the same bytes in every replica."""

    def __init__(self, keys: SignerKeys, policy: SigningPolicy) -> None:
        """Raises NativeBackendMissing when signatures would not come from libsecp256k1."""
        self._keys = keys
        self._policy = policy
        self._backend = _native_backend()

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The signers of the pool, in the order of the configuration."""
        return self._keys.addresses

    def sign(self, request: SigningRequest, reservation: Reservation) -> SignedTransaction:
        """Check every rule, sign, then read the signed bytes back and compare all of them with the request.

        Takes about a millisecond of CPU. Raises SigningRefused (with every broken rule), UnknownSigner, SigningFailed,
        and SignatureMismatch when the bytes say anything else or another key made them.
        """
        broken = refusals(request, self._policy, reservation)
        if broken:
            raise SigningRefused(broken)
        material = self._keys.keys.get(request.signer)
        if material is None:
            raise UnknownSigner(request.signer)
        raw = self._signed(request, material)
        if isinstance(raw, str):
            raise SigningFailed(request.signer, request.nonce, raw)
        differs = _differences(request, decode(raw))
        if differs:
            raise SignatureMismatch(request.signer, request.nonce, differs)
        return SignedTransaction(transaction_hash(raw), raw)

    def _signed(self, request: SigningRequest, material: KeyMaterial) -> Opaque | str:
        """The signed bytes, or the class name of what the library raised: its frames hold the key and must end here."""
        with material.revealed() as octets:
            try:
                key = PrivateKey(cast("bytes", octets), backend=self._backend)
                signed = Account.sign_transaction(_transaction(request), key)
            except Exception as error:  # noqa: BLE001 - becomes SigningFailed, without the frames
                return type(error).__name__
            return Opaque(bytes(signed.raw_transaction))


def _native_backend() -> CoinCurveECCBackend:
    try:
        backend = CoinCurveECCBackend()
    except ImportError as error:
        raise NativeBackendMissing from error
    # Account.set_key_backend does not reach the key objects, and ECC_BACKEND_CLASS in the environment does; so every
    # key is made with the backend in hand, and this shows that the library keeps to it.
    if PrivateKey(b"\x01" * 32, backend=backend).backend is not backend:
        raise NativeBackendMissing
    return backend


def _transaction(request: SigningRequest) -> dict[str, Any]:
    return {
        "type": 2,
        "chainId": request.chain_id,
        "nonce": request.nonce,
        "to": request.to.value,
        "value": request.value_wei,
        "data": request.data,
        "gas": request.gas_limit,
        "maxFeePerGas": request.max_fee_per_gas_wei,
        "maxPriorityFeePerGas": request.max_priority_fee_per_gas_wei,
        "accessList": [
            {"address": address.value, "storageKeys": [f"0x{key.hex()}" for key in keys]}
            for address, keys in request.access_list
        ],
    }


def _differences(request: SigningRequest, decoded: SigningRequest | Undecodable) -> tuple[str, ...]:
    if isinstance(decoded, Undecodable):
        return (f"form ({decoded.why})",)
    names = (attribute.name for attribute in fields(SigningRequest))
    return tuple(name for name in names if getattr(request, name) != getattr(decoded, name))
