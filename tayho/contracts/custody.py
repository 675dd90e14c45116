"""What custody shows the other contexts.

Generated from tayho/custody/module.py by `make contracts`; a stale copy fails the build.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tayho.custody.errors import (
    CustodyError,
    KeysRefused,
    KeyWiped,
    SealBroken,
    SealFault,
    SessionKeyRefused,
    SignatureMismatch,
    SigningFailed,
    SigningRefused,
    UnknownKeyId,
    UnknownSigner,
)
from tayho.custody.types import (
    KeyFault,
    KeyProblem,
    Refusal,
    Reservation,
    Rlp,
    Rule,
    SealBinding,
    SealedTransaction,
    SignedSealed,
    SignedTransaction,
    SigningPolicy,
    SigningRequest,
    Undecodable,
)
from tayho.kernel.address import Address
from tayho.kernel.opaque import Opaque

__all__ = [
    "Custody",
    "CustodyError",
    "KeyFault",
    "KeyProblem",
    "KeyWiped",
    "KeysRefused",
    "Refusal",
    "Reservation",
    "Rlp",
    "Rule",
    "SealBinding",
    "SealBroken",
    "SealFault",
    "SealedTransaction",
    "SessionKeyRefused",
    "SignatureMismatch",
    "SignedSealed",
    "SignedTransaction",
    "SigningFailed",
    "SigningPolicy",
    "SigningRefused",
    "SigningRequest",
    "Undecodable",
    "UnknownKeyId",
    "UnknownSigner",
]


class Custody(Protocol):
    """Signs what was reserved, seals what was signed, and opens it again. It keeps no rows and reaches no chain.

    Signing and sealing take about a millisecond of CPU each time, on the event loop: every method yields before each
    item, so that a batch delays others by one item and no more, and a cancelled batch stops between two.
    """

    async def signers(self) -> tuple[Address, ...]:
        """The accounts this process can sign for, in the order of the configuration."""
        ...

    async def refusals(self, request: SigningRequest) -> tuple[Refusal, ...]:
        """The rules that the request breaks by itself. Asked before a nonce is taken for what nobody would sign."""
        ...

    async def sign_and_seal(self, request: SigningRequest, reservation: Reservation) -> SignedSealed:
        """Sign the request if it is what the lineage reserved and breaks no rule, and seal the bytes for its row.

        The same request always gives the same bytes and hash, and each time another seal. Raises SigningRefused,
        UnknownSigner, SigningFailed, SignatureMismatch.
        """
        ...

    async def sign_and_seal_many(
        self, items: Sequence[tuple[SigningRequest, Reservation]]
    ) -> tuple[SignedSealed | CustodyError, ...]:
        """`sign_and_seal` for each item, in order. One refused item stands as its error and harms no other."""
        ...

    async def unseal(self, sealed: SealedTransaction, binding: SealBinding) -> Opaque:
        """The signed bytes of the row, once they are proven to be the row's. Raises UnknownKeyId, SealBroken."""
        ...

    async def unseal_many(
        self, items: Sequence[tuple[SealedTransaction, SealBinding]]
    ) -> tuple[Opaque | CustodyError, ...]:
        """`unseal` for each item, in order. One broken row stands as its error and harms no other."""
        ...
