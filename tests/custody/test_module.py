"""Custody's face: batches, order, cancellation, wiping."""

from __future__ import annotations

import pytest
import trio
from attrs import evolve

from tayho.custody.errors import (
    CustodyError,
    KeyWiped,
    SealBroken,
    SealFault,
    SigningRefused,
    UnknownKeyId,
    UnknownSigner,
)
from tayho.custody.module import Custody, open_custody
from tayho.custody.types import Reservation, SealBinding, SignedSealed, SigningRequest
from tayho.kernel.opaque import Opaque
from tests.custody.examples import (
    CHAIN_ID,
    KEY_HEX,
    OTHER_SIGNER,
    POLICY,
    REQUEST,
    SIGNER,
    journal_keys,
    reservation_of,
    signer_keys,
)


def items(count: int) -> list[tuple[SigningRequest, Reservation]]:
    requests = [evolve(REQUEST, nonce=nonce) for nonce in range(count)]
    return [(request, reservation_of(request)) for request in requests]


def row_of(request: SigningRequest, tx_hash: bytes) -> SealBinding:
    return SealBinding(CHAIN_ID, request.signer, request.nonce, reservation_of(request).call_hash, tx_hash)


async def test_a_request_is_signed_sealed_and_opened_again() -> None:
    """Goal: the way of one transaction through custody. Method: sign and seal, then open under its row."""
    with open_custody(signer_keys(), journal_keys(), POLICY) as custody:
        assert await custody.signers() == (SIGNER, OTHER_SIGNER)
        result = await custody.sign_and_seal(*items(1)[0])
        assert await custody.unseal(result.sealed, row_of(items(1)[0][0], result.tx_hash)) == result.raw


async def test_signing_again_gives_the_same_bytes_under_another_seal() -> None:
    """Goal: a crash between signing and persisting is harmless. Method: sign twice, compare bytes, hash and seal."""
    with open_custody(signer_keys(), journal_keys(), POLICY) as custody:
        first, second = [await custody.sign_and_seal(*items(1)[0]) for _ in range(2)]
    assert (first.raw, first.tx_hash) == (second.raw, second.tx_hash)
    assert first.sealed != second.sealed


async def test_one_refused_item_harms_no_other() -> None:
    """Goal: a batch is many answers, not one. Method: a refused and an unknown signer between good ones, in order."""
    batch = items(4)
    batch[1] = (evolve(batch[1][0], gas_limit=1), batch[1][1])
    with open_custody(signer_keys(KEY_HEX), journal_keys(), POLICY) as custody:
        foreign = evolve(batch[2][0], signer=OTHER_SIGNER)
        batch[2] = (foreign, reservation_of(foreign))
        results = await custody.sign_and_seal_many(batch)
    assert [type(result) for result in results] == [SignedSealed, SigningRefused, UnknownSigner, SignedSealed]


async def test_one_broken_row_harms_no_other() -> None:
    """Goal: as above, for opening. Method: exchanged rows and an unknown key id between good ones."""
    batch = items(4)
    with open_custody(signer_keys(), journal_keys(), POLICY) as custody:
        signed = [await custody.sign_and_seal(*item) for item in batch]
        rows = [(one.sealed, row_of(request, one.tx_hash)) for one, (request, _) in zip(signed, batch, strict=True)]
        rows[1] = (rows[2][0], rows[1][1])
        rows[2] = (evolve(rows[2][0], key_id="gone"), rows[2][1])
        results = await custody.unseal_many(rows)
    assert [type(result) for result in results] == [Opaque, SealBroken, UnknownKeyId, Opaque]
    assert isinstance(results[1], SealBroken)
    assert results[1].fault is SealFault.NOT_AUTHENTIC
    assert results[3] == signed[3].raw


async def test_a_batch_lets_others_run_between_its_items() -> None:
    """Goal: a batch never holds the loop. Method: a neighbour that counts its turns while twenty are signed and opened.

    Each pass of the loop runs both once, in either order: twenty items give it twenty turns, less one at each end.
    """
    turns = 0

    async def neighbour() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    with open_custody(signer_keys(), journal_keys(), POLICY) as custody:
        async with trio.open_nursery() as neighbours:
            neighbours.start_soon(neighbour)
            signed = await custody.sign_and_seal_many(items(20))
            assert turns >= 18
            turns = 0
            rows = [
                (one.sealed, row_of(request, one.tx_hash))
                for one, (request, _) in zip(signed, items(20), strict=True)
                if isinstance(one, SignedSealed)
            ]
            await custody.unseal_many(rows)
            assert turns >= 18
            neighbours.cancel_scope.cancel()


async def test_a_cancelled_batch_stops_between_two_items(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: cancellation is prompt and leaves custody whole. Method: cancel in the third of many; sign again."""
    signed: list[int] = []
    with open_custody(signer_keys(), journal_keys(), POLICY) as custody:
        signer = custody._signer  # pyright: ignore[reportPrivateUsage]
        honest = signer.sign
        with trio.CancelScope() as scope:

            def sign(request: SigningRequest, reservation: Reservation):
                signed.append(request.nonce)
                if len(signed) == 3:
                    scope.cancel()
                return honest(request, reservation)

            monkeypatch.setattr(signer, "sign", sign)
            await custody.sign_and_seal_many(items(50))
        assert scope.cancelled_caught
        assert signed == [0, 1, 2]
        assert isinstance(await custody.sign_and_seal(*items(1)[0]), SignedSealed)


async def test_closing_wipes_every_key() -> None:
    """Goal: keys end with the scope, however it ends. Method: leave by an error; every use afterwards is KeyWiped."""
    signers, journal = signer_keys(), journal_keys()
    held: list[Custody] = []

    def leave_by_an_error() -> None:
        with open_custody(signers, journal, POLICY) as custody:
            held.append(custody)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        leave_by_an_error()
    assert all(material.wiped for material in (*signers.keys.values(), *journal.keys.values()))
    (result,) = await held[0].sign_and_seal_many(items(1))
    assert isinstance(result, KeyWiped)
    assert isinstance(result, CustodyError)
