"""Custody's face. Hosts build it here; other contexts reach it through its generated contract."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

import trio

from tayho.custody.errors import CustodyError, KeysRefused
from tayho.custody.fresh_keys import fresh_pool, fresh_session_key
from tayho.custody.hardening import harden_process
from tayho.custody.journal_seal import JournalSeal
from tayho.custody.key_rings import JournalKeys, SignerKeys
from tayho.custody.local_signer import LocalSigner
from tayho.custody.parsing import parse_journal_keys, parse_signer_keys
from tayho.custody.pseudonyms import Pseudonyms, parse_pseudonyms
from tayho.custody.recovery import lowered, recovered
from tayho.custody.session_keys import LocalSessionKey, open_session_key
from tayho.custody.types import (
    Refusal,
    Reservation,
    SealBinding,
    SealedTransaction,
    SignedSealed,
    SigningPolicy,
    SigningRequest,
)
from tayho.kernel.address import Address
from tayho.kernel.opaque import Opaque

__all__ = [
    "Custody",
    "CustodyError",
    "JournalKeys",
    "KeysRefused",
    "LocalSessionKey",
    "Pseudonyms",
    "SignerKeys",
    "SigningPolicy",
    "fresh_pool",
    "fresh_session_key",
    "harden_process",
    "lowered",
    "open_custody",
    "open_session_key",
    "parse_journal_keys",
    "parse_pseudonyms",
    "parse_signer_keys",
    "recovered",
]


class Custody:
    """Signs what was reserved, seals what was signed, and opens it again. It keeps no rows and reaches no chain.

    Signing and sealing take about a millisecond of CPU each time, on the event loop: every method yields before each
    item, so that a batch delays others by one item and no more, and a cancelled batch stops between two.
    """

    def __init__(self, signer: LocalSigner, seal: JournalSeal) -> None:
        self._signer = signer
        self._seal = seal

    async def signers(self) -> tuple[Address, ...]:
        """The accounts this process can sign for, in the order of the configuration."""
        await trio.lowlevel.checkpoint()
        return self._signer.addresses

    async def refusals(self, request: SigningRequest) -> tuple[Refusal, ...]:
        """The rules that the request breaks by itself. Asked before a nonce is taken for what nobody would sign."""
        await trio.lowlevel.checkpoint()
        return self._signer.refusals(request)

    async def sign_and_seal(self, request: SigningRequest, reservation: Reservation) -> SignedSealed:
        """Sign the request if it is what the lineage reserved and breaks no rule, and seal the bytes for its row.

        The same request always gives the same bytes and hash, and each time another seal. Raises SigningRefused,
        UnknownSigner, SigningFailed, SignatureMismatch.
        """
        await trio.lowlevel.checkpoint()
        signed = self._signer.sign(request, reservation)
        binding = SealBinding(
            chain_id=request.chain_id,
            signer=request.signer,
            nonce=request.nonce,
            call_hash=reservation.call_hash,
            tx_hash=signed.tx_hash,
        )
        return SignedSealed(signed.tx_hash, signed.raw, self._seal.seal(signed.raw, binding))

    async def sign_and_seal_many(
        self, items: Sequence[tuple[SigningRequest, Reservation]]
    ) -> tuple[SignedSealed | CustodyError, ...]:
        """`sign_and_seal` for each item, in order. One refused item stands as its error and harms no other."""
        results: list[SignedSealed | CustodyError] = []
        for request, reservation in items:
            try:
                results.append(await self.sign_and_seal(request, reservation))
            except CustodyError as error:
                results.append(error)
        return tuple(results)

    async def unseal(self, sealed: SealedTransaction, binding: SealBinding) -> Opaque:
        """The signed bytes of the row, once they are proven to be the row's. Raises UnknownKeyId, SealBroken."""
        await trio.lowlevel.checkpoint()
        return self._seal.unseal(sealed, binding)

    async def unseal_many(
        self, items: Sequence[tuple[SealedTransaction, SealBinding]]
    ) -> tuple[Opaque | CustodyError, ...]:
        """`unseal` for each item, in order. One broken row stands as its error and harms no other."""
        results: list[Opaque | CustodyError] = []
        for sealed, binding in items:
            try:
                results.append(await self.unseal(sealed, binding))
            except CustodyError as error:
                results.append(error)
        return tuple(results)


@contextmanager
def open_custody(signer_keys: SignerKeys, journal_keys: JournalKeys, policy: SigningPolicy) -> Generator[Custody]:
    """Custody over these keys, which are wiped when the block ends. Open it first and close it last."""
    try:
        yield Custody(LocalSigner(signer_keys, policy), JournalSeal(journal_keys))
    finally:
        signer_keys.wipe()
        journal_keys.wipe()
