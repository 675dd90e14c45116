from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from eth_account import Account
from eth_account.typed_transactions import TypedTransaction
from eth_keys.backends import CoinCurveECCBackend, NativeECCBackend
from eth_utils.crypto import keccak
from hexbytes import HexBytes
from hypothesis import given

from tayho.custody.eip1559 import decode
from tayho.custody.errors import NativeBackendMissing, SignatureMismatch, SigningFailed, SigningRefused, UnknownSigner
from tayho.custody.key_rings import SignerKeys
from tayho.custody.local_signer import LocalSigner
from tayho.custody.types import Rule, SigningRequest
from tests.custody.examples import (
    KEY_HEX,
    OTHER_KEY_HEX,
    OTHER_SIGNER,
    POLICY,
    REQUEST,
    SIGNER,
    rendered,
    reservation_of,
    right_requests,
    shows,
    signer_keys,
)

LOCAL = LocalSigner(signer_keys(), POLICY)
KEYS = {SIGNER: KEY_HEX, OTHER_SIGNER: OTHER_KEY_HEX}
RESERVED = reservation_of(REQUEST)


@given(right_requests())
def test_signed_bytes_say_exactly_what_was_asked(request: SigningRequest) -> None:
    """Goal: any right request is signed, and its bytes say it.

    Method: random requests; the bytes are read by our decoder and by eth-account's, which share no code.
    """
    signed = LOCAL.sign(request, reservation_of(request))
    raw = signed.raw.reveal()
    assert decode(signed.raw) == request
    assert signed.tx_hash == keccak(raw)
    assert Account.recover_transaction(raw) == request.signer.checksummed
    theirs = TypedTransaction.from_bytes(HexBytes(raw)).as_dict()
    assert (theirs["chainId"], theirs["nonce"], theirs["gas"]) == (request.chain_id, request.nonce, request.gas_limit)
    assert (theirs["to"], theirs["value"], theirs["data"]) == (request.to.value, request.value_wei, request.data)
    assert theirs["maxFeePerGas"] == request.max_fee_per_gas_wei
    assert theirs["maxPriorityFeePerGas"] == request.max_priority_fee_per_gas_wei
    assert [entry["address"] for entry in theirs["accessList"]] == [address.value for address, _ in request.access_list]


def test_the_same_request_gives_the_same_bytes_in_every_replica() -> None:
    """Goal: signing again cannot make a second transaction. Method: two signers, two signatures, one result."""
    other = LocalSigner(signer_keys(OTHER_KEY_HEX, KEY_HEX), POLICY)
    assert LOCAL.sign(REQUEST, RESERVED) == LOCAL.sign(REQUEST, RESERVED) == other.sign(REQUEST, RESERVED)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"chain_id": None}, Rule.CHAIN_ID_MISSING),
        ({"chain_id": 0}, Rule.CHAIN_ID_MISSING),
        ({"to": b""}, Rule.TO_MISSING),
        ({"value_wei": 2**256}, Rule.VALUE_OUT_OF_RANGE),
        ({"nonce": 8}, Rule.NONCE_NOT_RESERVED),
        ({"max_fee_per_gas_wei": True}, Rule.FIELD_TYPE),
        ({"data": b"other"}, Rule.CALL_NOT_RESERVED),
    ],
)
def test_nothing_refused_reaches_the_library(
    change: dict[str, Any], rule: Rule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: validation stands before the signature, and is no advice. Method: a library that fails the test when called."""
    monkeypatch.setattr(Account, "sign_transaction", lambda *_: pytest.fail("signed"))
    with pytest.raises(SigningRefused) as caught:
        LOCAL.sign(evolve(REQUEST, **change), RESERVED)
    assert rule in {refusal.rule for refusal in caught.value.refusals}
    assert rule.value in str(caught.value)


def test_a_signer_without_a_key_here_is_named() -> None:
    """Goal: a missing key is told apart from a broken rule. Method: a ring that lacks the signer."""
    with pytest.raises(UnknownSigner, match=SIGNER.checksummed):
        LocalSigner(signer_keys(OTHER_KEY_HEX), POLICY).sign(REQUEST, RESERVED)


def test_a_key_under_another_address_is_caught_by_its_signature() -> None:
    """Goal: the sender is recovered, never believed. Method: a ring whose two keys were exchanged behind the parser."""
    ring = signer_keys().keys
    exchanged = LocalSigner(SignerKeys({SIGNER: ring[OTHER_SIGNER], OTHER_SIGNER: ring[SIGNER]}), POLICY)
    with pytest.raises(SignatureMismatch) as caught:
        exchanged.sign(REQUEST, RESERVED)
    assert caught.value.differs == ("signer",)


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("nonce", 8, "nonce"),
        ("to", OTHER_SIGNER.value, "to"),
        ("value", 2**200, "value_wei"),
        ("data", b"", "data"),
        ("gas", 21_001, "gas_limit"),
        ("maxFeePerGas", 2**40, "max_fee_per_gas_wei"),
        ("chainId", 1, "chain_id"),
        ("accessList", [], "access_list"),
        ("to", b"", "form (no destination)"),
    ],
)
def test_bytes_that_say_anything_else_are_thrown_away(
    field: str, value: object, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: a library that changes a field cannot get it past us. Method: change it on the way in; see the bytes refused."""
    honest = Account.sign_transaction
    monkeypatch.setattr(Account, "sign_transaction", lambda asked, key: honest({**asked, field: value}, key))
    with pytest.raises(SignatureMismatch) as caught:
        LOCAL.sign(REQUEST, RESERVED)
    assert caught.value.differs == (named,)


def test_a_failing_library_takes_no_key_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: no key in an error, whatever fails. Method: fail deep inside, render the whole chain with locals."""

    def fail(asked: object, key: Any) -> None:
        octets = bytes(key.to_bytes())
        raise RuntimeError(f"cannot sign with {octets.hex()}")

    monkeypatch.setattr(Account, "sign_transaction", fail)
    with pytest.raises(SigningFailed) as caught:
        LOCAL.sign(REQUEST, RESERVED)
    assert caught.value.library_error == "RuntimeError"
    assert caught.value.__context__ is None
    assert not shows(rendered(caught.value), bytes.fromhex(KEY_HEX))


def test_refusals_and_mismatches_show_neither_key_nor_signed_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: no plaintext in any error (TX-2). Method: render a mismatch with locals and look for the bytes it threw away."""
    raws: list[bytes] = []
    honest = Account.sign_transaction

    def change(asked: dict[str, Any], key: Any) -> Any:
        signed = honest({**asked, "nonce": 9}, key)
        raws.append(bytes(signed.raw_transaction))
        return signed

    monkeypatch.setattr(Account, "sign_transaction", change)
    with pytest.raises(SignatureMismatch) as caught:
        LOCAL.sign(REQUEST, RESERVED)
    text = rendered(caught.value)
    assert not shows(text, bytes.fromhex(KEY_HEX))
    assert raws[0][-64:-32].hex() not in text
    assert repr(raws[0][-64:-32])[2:-1] not in text


def test_the_native_library_signs_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a variable cannot turn signing a hundred times slower. Method: name the Python backend, and break it."""
    monkeypatch.setenv("ECC_BACKEND_CLASS", "eth_keys.backends.NativeECCBackend")
    for method in ("ecdsa_sign", "private_key_to_public_key"):
        monkeypatch.setattr(NativeECCBackend, method, lambda *_: pytest.fail("the Python backend was used"))
    assert LocalSigner(signer_keys(), POLICY).sign(REQUEST, RESERVED) == LOCAL.sign(REQUEST, RESERVED)


def test_without_the_native_library_there_is_no_signer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: the slow path is refused at the start. Method: the backend cannot be built; then, it is not kept to."""

    def missing(_: object) -> None:
        raise ImportError("coincurve")

    with monkeypatch.context() as patched:
        patched.setattr(CoinCurveECCBackend, "__init__", missing)
        with pytest.raises(NativeBackendMissing):
            LocalSigner(signer_keys(), POLICY)
    monkeypatch.setattr("tayho.custody.local_signer.PrivateKey.backend", property(lambda _: NativeECCBackend(), lambda *_: None))
    with pytest.raises(NativeBackendMissing):
        LocalSigner(signer_keys(), POLICY)
