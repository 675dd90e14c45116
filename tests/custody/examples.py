"""Requests, rows and keys for the custody tests, and a renderer that shows all a careless log would."""

from __future__ import annotations

import traceback

from attrs import evolve
from hypothesis import strategies as st

from tayho.custody.local_signer import LocalSigner
from tayho.custody.module import parse_journal_keys, parse_signer_keys
from tayho.custody.types import Reservation, SealBinding, SignedTransaction, SigningPolicy, SigningRequest
from tayho.kernel.address import Address
from tayho.kernel.call_hash import call_hash

CHAIN_ID = 31337
KEY_HEX = "5d2f1c9ae07bb843a6cf4e1d08f79b3362aa54cd917e06b8f1d2c3a495867b0e"
OTHER_KEY_HEX = "c3a495867b0e5d2f1c9ae07bb843a6cf4e1d08f79b3362aa54cd917e06b8f1d2"
JOURNAL_HEX = "91e7a06b8f1d2c3a495867b0e5d2f1c9ae07bb843a6cf4e1d08f79b3362aa54c"
OLD_JOURNAL_HEX = "08f79b3362aa54cd917e06b8f1d2c3a495867b0e5d2f1c9ae07bb843a6cf4e1d"

POLICY = SigningPolicy(chain_ids=frozenset({CHAIN_ID}), max_fee_per_gas_wei_max=500 * 10**9)
CONTRACT = Address.parse("0x5FbDB2315678afecb367f032d93F642f64180aa3")


def legacy_of(request: SigningRequest) -> SigningRequest:
    """The same call as a legacy transaction."""
    price_wei = request.max_fee_per_gas_wei
    return evolve(request, transaction_type=0, max_priority_fee_per_gas_wei=price_wei, access_list=())


def signer_keys(*keys_hex: str):
    return parse_signer_keys("[" + ", ".join(f'"0x{key}"' for key in keys_hex or (KEY_HEX, OTHER_KEY_HEX)) + "]")


def journal_keys(active_id: str = "2026-02"):
    return parse_journal_keys(f'{{"2026-01": "0x{OLD_JOURNAL_HEX}", "2026-02": "0x{JOURNAL_HEX}"}}', active_id)


SIGNER, OTHER_SIGNER = signer_keys().addresses

REQUEST = SigningRequest(
    chain_id=CHAIN_ID,
    signer=SIGNER,
    nonce=7,
    to=CONTRACT,
    value_wei=3,
    data=bytes.fromhex("a9059cbb") + bytes(range(64)),
    gas_limit=90_000,
    max_fee_per_gas_wei=30 * 10**9,
    max_priority_fee_per_gas_wei=2 * 10**9,
    access_list=((CONTRACT, (b"\x01" * 32, b"\x02" * 32)), (SIGNER, ())),
)


def reservation_of(request: SigningRequest) -> Reservation:
    """The reservation under which the request may be signed."""
    call = call_hash(request.chain_id, request.to, request.value_wei, request.data)
    return Reservation(request.chain_id, request.signer, request.nonce, call)


def signed_at(nonce: int, request: SigningRequest = REQUEST) -> tuple[SignedTransaction, SealBinding]:
    """The request signed at a nonce, and the row it belongs to."""
    request = evolve(request, nonce=nonce)
    reserved = reservation_of(request)
    signed = LocalSigner(signer_keys(), POLICY).sign(request, reserved)
    return signed, SealBinding(CHAIN_ID, SIGNER, nonce, reserved.call_hash, signed.tx_hash)


@st.composite
def right_requests(draw: st.DrawFn) -> SigningRequest:
    """Any request of either type that breaks no rule."""
    addresses = st.one_of(st.just(CONTRACT), st.binary(min_size=20, max_size=20).filter(any).map(Address))
    storage_keys = st.lists(st.binary(min_size=32, max_size=32), max_size=2).map(tuple)
    fee_wei = draw(st.integers(1, POLICY.max_fee_per_gas_wei_max))
    is_legacy = draw(st.booleans())
    return SigningRequest(
        chain_id=CHAIN_ID,
        signer=draw(st.sampled_from([SIGNER, OTHER_SIGNER])),
        nonce=draw(st.integers(0, 2**64 - 2)),
        to=draw(addresses),
        value_wei=draw(st.integers(0, 2**256 - 1)),
        data=draw(st.binary(max_size=300)),
        gas_limit=draw(st.integers(21_000, 2**24)),
        max_fee_per_gas_wei=fee_wei,
        max_priority_fee_per_gas_wei=fee_wei if is_legacy else draw(st.integers(0, fee_wei)),
        access_list=() if is_legacy else draw(st.lists(st.tuples(addresses, storage_keys), max_size=3).map(tuple)),
        transaction_type=0 if is_legacy else 2,
    )


def rendered(error: BaseException) -> str:
    """The error as the most talkative renderer shows it: whole chain, all frames' locals, save the test's own frame."""
    assert error.__traceback__ is not None
    below = error.__traceback__.tb_next
    whole = traceback.TracebackException(type(error), error, below, capture_locals=True)
    return "".join(whole.format(chain=True))


def shows(text: str, octets: bytes) -> bool:
    """Whether the text tells the bytes, or a third of them, as hex, as a literal or as a number."""
    third = max(8, len(octets) // 3)
    parts = [octets[start : start + third] for start in range(0, len(octets) - third + 1, third)]
    spellings = (
        [part.hex() for part in parts] + [repr(part)[2:-1] for part in parts] + [str(int.from_bytes(octets, "big"))]
    )
    return any(spelling in text for spelling in spellings)
