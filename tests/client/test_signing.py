"""A signature leaves only if the engine would take it, and the key stays where it is."""

from __future__ import annotations

import pytest
from attrs import evolve, frozen
from hypothesis import given, settings
from hypothesis import strategies as st

from tayho.client import (
    Address,
    SignatureOfAnother,
    SignatureUnusable,
    SignedIntent,
    digest_of,
    sign_intent,
    typed_data_of,
    with_signature,
)
from tayho.client.actions import (
    EVERY_MARKET,
    Action,
    cancel_order,
    claim,
    permissions_of,
    place_order,
    withdraw,
)
from tayho.custody.errors import KeyWiped, SessionKeyRefused
from tayho.custody.module import fresh_pool, fresh_session_key, open_session_key, parse_signer_keys, recovered
from tayho.intents.admission import S_MAX, examine
from tayho.protocol import codec
from tests.client.intents import ACCOUNT, DOMAIN, MARKET, local_key, signed_order
from tests.custody.oracle import Account

NOW = 1_800_000_000
ORDER = place_order(ACCOUNT, MARKET, size=-3, deadline=NOW + 60, salt=5)
GROUP_ORDER = 2 * S_MAX + 1


@frozen
class Returning:
    """A wallet that returns what it is told to."""

    address: Address
    signature: bytes

    def sign(self, digest: bytes) -> bytes:
        return self.signature


@given(number=st.integers(1, GROUP_ORDER - 1), salt=st.integers(0, 2**256 - 1))
@settings(max_examples=30)
def test_what_is_signed_is_what_the_engine_takes(number: int, salt: int) -> None:
    """Goal: one code for both sides. Method: any key, any salt; the engine's own examination finds the address."""
    key = local_key(number)
    signed = sign_intent(evolve(ORDER, salt=salt), DOMAIN, key)
    examined = examine(signed, DOMAIN, recover=recovered)
    assert (examined.session_key, examined.digest) == (key.address, digest_of(signed.intent, DOMAIN))


def test_eth_account_makes_the_same_signature() -> None:
    """Goal: the page's recipe for a key of eth-account. Method: both sign one digest (RFC 6979), byte for byte."""
    key, digest = local_key(), digest_of(ORDER, DOMAIN)
    theirs = Account.unsafe_sign_hash(digest, (7).to_bytes(32, "big"))
    assert with_signature(ORDER, DOMAIN, bytes(theirs.signature), signer=key.address) == sign_intent(ORDER, DOMAIN, key)


def test_a_wallet_is_shown_the_same_message() -> None:
    """Goal: who signs the document signs the digest. Method: eth-account signs the document of eth_signTypedData_v4."""
    key = local_key()
    theirs = Account.sign_typed_data((7).to_bytes(32, "big"), full_message=typed_data_of(ORDER, DOMAIN))
    assert theirs.message_hash == digest_of(ORDER, DOMAIN)
    assert with_signature(ORDER, DOMAIN, bytes(theirs.signature), signer=key.address) == sign_intent(ORDER, DOMAIN, key)


def test_either_writing_of_a_signature_becomes_the_lower_one() -> None:
    """Goal: a wallet that knows nothing of EIP-2, or counts v from 0, still serves. Method: rewrite a good signature in
    each way; all become it."""
    key = local_key()
    good = sign_intent(ORDER, DOMAIN, key).signature
    upper = good[:32] + (GROUP_ORDER - int.from_bytes(good[32:64], "big")).to_bytes(32, "big")
    for written in (
        good,
        good[:64] + bytes([good[64] - 27]),
        upper + bytes([55 - good[64]]),
        upper + bytes([28 - good[64]]),
    ):
        assert sign_intent(ORDER, DOMAIN, Returning(key.address, written)) == SignedIntent(ORDER, good)


@pytest.mark.parametrize(
    ("signature", "refusal"),
    [
        (b"", SignatureUnusable),
        (bytes(64), SignatureUnusable),
        (bytes(65), SignatureUnusable),
        (b"\xff" * 64 + b"\x1b", SignatureUnusable),
        (signed_order(1).signature[:64] + b"\x05", SignatureUnusable),
        (signed_order(1).signature, SignatureOfAnother),
    ],
    ids=["none", "short", "zeros", "too great", "v of 5", "of another intent"],
)
def test_what_the_engine_would_refuse_does_not_leave(signature: bytes, refusal: type[Exception]) -> None:
    """Goal: a wallet's fault is found where it is. Method: return what is no signature of this intent."""
    with pytest.raises(refusal):
        sign_intent(ORDER, DOMAIN, Returning(local_key().address, signature))


def test_a_session_key_shows_nothing_and_is_wiped_at_the_end() -> None:
    """Goal: custody's rules hold for it too. Method: its repr, its use after the block, bytes that are no key."""
    octets = bytearray((99).to_bytes(32, "big"))
    with open_session_key(octets) as key:
        assert repr(key) == f"LocalSessionKey({key.address})"
        assert not any(octets)
    with pytest.raises(KeyWiped):
        key.sign(bytes(32))
    for bad in (bytearray(32), bytearray(b"\xff" * 32), bytearray(31)):
        with pytest.raises(SessionKeyRefused), open_session_key(bad):
            pass


def test_fresh_keys_are_new_and_their_addresses_right() -> None:
    """Goal: who is granted a role is who signs. Method: read the text of a pool back; two session keys differ."""
    addresses, told = fresh_pool(2)
    with fresh_session_key() as one, fresh_session_key() as other:
        assert len({*addresses, one.address, other.address}) == 4
    keys = parse_signer_keys(told)
    assert keys.addresses == addresses
    keys.wipe()


def test_a_session_key_signs_digests_alone() -> None:
    """Goal: nobody signs a message in place of its digest. Method: hand in another length."""
    with pytest.raises(ValueError, match="32 bytes"):
        local_key().sign(b"hello")


def test_each_action_is_what_the_contract_decodes() -> None:
    """Goal: the builders and Solidity agree. Method: decode each payload by the types that Protocol.execute names."""
    until = NOW + 60
    for intent, action, market, types, values in (
        (ORDER, Action.PLACE_ORDER, MARKET, ["int128", "uint64"], (-3, 0)),
        (cancel_order(ACCOUNT, MARKET, order_id=9, deadline=until), Action.CANCEL_ORDER, MARKET, ["uint256"], (9,)),
        (
            claim(ACCOUNT, recipient=ACCOUNT, amount_wei=5, deadline=until),
            *(Action.CLAIM, EVERY_MARKET, ["address", "uint256"], (ACCOUNT, 5)),
        ),
        (
            withdraw(ACCOUNT, recipient=ACCOUNT, amount_wei=6, deadline=until),
            *(Action.WITHDRAW, EVERY_MARKET, ["address", "uint256"], (ACCOUNT, 6)),
        ),
    ):
        assert (intent.action, intent.market, intent.deadline) == (action, market, until)
        assert codec.decode(types, intent.payload) == values
    assert permissions_of([Action.PLACE_ORDER, Action.WITHDRAW, Action.WITHDRAW]) == 0b1001


def test_a_number_that_the_contract_cannot_hold_is_refused() -> None:
    """Goal: no silent wrap. Method: a size beyond int128."""
    with pytest.raises(codec.ValueRefused):
        place_order(ACCOUNT, MARKET, size=2**127, deadline=NOW)


def test_two_wishes_are_two_unless_they_are_named() -> None:
    """Goal: a wish that is built twice is two by chance alone, and one where its name is given. Method: compare."""
    assert place_order(ACCOUNT, MARKET, size=1, deadline=NOW) != place_order(ACCOUNT, MARKET, size=1, deadline=NOW)
    named = [place_order(ACCOUNT, MARKET, size=1, deadline=NOW, salt=4) for _ in range(2)]
    assert named[0] == named[1]
