"""The local signer signs what was reserved, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from attrs import evolve
from eth_utils.crypto import keccak
from hexbytes import HexBytes
from hypothesis import given, settings

from tayho.custody import local_signer
from tayho.custody.encoding import decode, signed_bytes, signing_digest
from tayho.custody.errors import SignatureMismatch, SigningFailed, SigningRefused, UnknownSigner
from tayho.custody.key_rings import SignerKeys
from tayho.custody.local_signer import LocalSigner
from tayho.custody.types import Rule, SigningRequest
from tayho.kernel.opaque import Opaque
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
from tests.custody.oracle import Account, TypedTransaction

LOCAL = LocalSigner(signer_keys(), POLICY)
KEYS_HEX = {SIGNER: KEY_HEX, OTHER_SIGNER: OTHER_KEY_HEX}
RESERVED = reservation_of(REQUEST)


def as_eth_account_asks(request: SigningRequest) -> dict[str, Any]:
    asked = {
        "chainId": request.chain_id,
        "nonce": request.nonce,
        "to": request.to.value,
        "value": request.value_wei,
        "data": request.data,
        "gas": request.gas_limit,
    }
    if request.transaction_type == 0:
        return asked | {"gasPrice": request.max_fee_per_gas_wei}
    return asked | {
        "type": 2,
        "maxFeePerGas": request.max_fee_per_gas_wei,
        "maxPriorityFeePerGas": request.max_priority_fee_per_gas_wei,
        "accessList": [
            {"address": address.value, "storageKeys": [f"0x{key.hex()}" for key in keys]}
            for address, keys in request.access_list
        ],
    }


@settings(deadline=None)
@given(right_requests())
def test_signed_bytes_are_those_of_another_implementation(request: SigningRequest) -> None:
    """Goal: any right request is signed byte for byte as others do. Method: random requests against eth-account."""
    signed = LOCAL.sign(request, reservation_of(request))
    raw = signed.raw.reveal()
    theirs = Account.sign_transaction(as_eth_account_asks(request), f"0x{KEYS_HEX[request.signer]}")
    assert raw == bytes(theirs.raw_transaction)
    assert signed.tx_hash == bytes(theirs.hash) == keccak(raw)


@settings(deadline=None)
@given(right_requests())
def test_signed_bytes_say_exactly_what_was_asked(request: SigningRequest) -> None:
    """Goal: what is broadcast is what was asked. Method: read the bytes with our decoder and with eth-account's."""
    signed = LOCAL.sign(request, reservation_of(request))
    assert decode(signed.raw) == request
    raw = signed.raw.reveal()
    assert Account.recover_transaction(raw) == request.signer.checksummed
    if request.transaction_type == 0:
        # eth-account reads no legacy transaction's fields; its bytes are compared above.
        return
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
    """Goal: validation stands before the signature, and is no advice. Method: a library that must not be called."""
    monkeypatch.setattr(local_signer, "sign_recoverable", lambda *_: pytest.fail("signed"))
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
    ("change", "named"),
    [
        ({"nonce": 8}, "nonce"),
        ({"to": OTHER_SIGNER}, "to"),
        ({"value_wei": 2**200}, "value_wei"),
        ({"data": b""}, "data"),
        ({"gas_limit": 21_001}, "gas_limit"),
        ({"max_fee_per_gas_wei": 2**40}, "max_fee_per_gas_wei"),
        ({"max_priority_fee_per_gas_wei": 0}, "max_priority_fee_per_gas_wei"),
        ({"chain_id": 1}, "chain_id"),
        ({"access_list": ()}, "access_list"),
    ],
)
def test_bytes_that_say_anything_else_are_thrown_away(
    change: dict[str, Any], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: an encoder that changes a field cannot get it past us. Method: one that does, and signs what it says."""
    monkeypatch.setattr(local_signer, "signing_digest", lambda asked: signing_digest(evolve(asked, **change)))
    monkeypatch.setattr(local_signer, "signed_bytes", lambda asked, by: signed_bytes(evolve(asked, **change), by))
    with pytest.raises(SignatureMismatch) as caught:
        LOCAL.sign(REQUEST, RESERVED)
    assert caught.value.differs == (named,)


def test_bytes_without_a_destination_are_thrown_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: no contract creation is ever signed, even by a broken encoder. Method: bytes cut off at the destination."""
    monkeypatch.setattr(local_signer, "signed_bytes", lambda *_: Opaque(b"\x02\xc0"))
    with pytest.raises(SignatureMismatch, match="form"):
        LOCAL.sign(REQUEST, RESERVED)


def test_a_failing_library_takes_no_key_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: no key in an error, whatever fails. Method: fail deep inside, render the whole chain with locals."""

    def fail(_digest: bytes, octets: bytearray) -> None:
        held = bytes(octets)
        raise RuntimeError(f"cannot sign with {held.hex()}")

    monkeypatch.setattr(local_signer, "sign_recoverable", fail)
    with pytest.raises(SigningFailed) as caught:
        LOCAL.sign(REQUEST, RESERVED)
    assert caught.value.library_error == "RuntimeError"
    assert caught.value.__context__ is None
    assert not shows(rendered(caught.value), bytes.fromhex(KEY_HEX))


def test_a_mismatch_shows_neither_key_nor_signed_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: no plaintext in any error (TX-2). Method: render a mismatch with locals; look for the bytes thrown away."""
    made: list[bytes] = []

    def change(asked: SigningRequest, signature: bytes) -> Opaque:
        raw = signed_bytes(evolve(asked, nonce=9), signature)
        made.append(raw.reveal())
        return raw

    monkeypatch.setattr(local_signer, "signed_bytes", change)
    with pytest.raises(SignatureMismatch) as caught:
        LOCAL.sign(REQUEST, RESERVED)
    text = rendered(caught.value)
    assert not shows(text, bytes.fromhex(KEY_HEX))
    assert not shows(text, made[0])
    assert not shows(text, made[0][-64:-32])
    assert not shows(text, made[0][-32:])


def test_custody_leaves_the_interpreter_as_it_was() -> None:
    """Goal: importing custody opens no door. Method: a fresh process imports it and reads a deeply nested text.

    eth-account imports py_ecc, which lifts the recursion limit to 100,000; after that one such JSON answer of a node
    ends the process with SIGSEGV.
    """
    program = """
import sys
limit = sys.getrecursionlimit()
from tayho.custody.module import parse_signer_keys
assert sys.getrecursionlimit() == limit
assert not {"py_ecc", "eth_account", "eth_keyfile"} & set(sys.modules)
try:
    parse_signer_keys("[" * 100_000)
except Exception as error:
    print(type(error).__name__)
"""
    child = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert (child.returncode, child.stdout) == (0, "KeysRefused\n"), child.stderr
