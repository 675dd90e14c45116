"""The local signer against transactions and accounts that others published: ethers' test cases, MIT."""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
import rlp
from attrs import evolve, frozen
from coincurve import PrivateKey
from eth_utils.crypto import keccak

from tayho.custody.encoding import decode
from tayho.custody.key_rings import SignerKeys
from tayho.custody.local_signer import LocalSigner
from tayho.custody.parsing import parse_signer_keys
from tayho.custody.types import Reservation, Rule, SigningPolicy, SigningRequest
from tayho.custody.validation import refusals
from tayho.kernel.address import Address
from tayho.kernel.call_hash import call_hash
from tayho.kernel.opaque import Opaque

REPOSITORY = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("TAYHO_CONFORMANCE_DATA", REPOSITORY.parent / "shared" / "data")) / "ethers"

if not DATA.is_dir():
    pytest.skip(f"no conformance data at {DATA} (TAYHO_CONFORMANCE_DATA)", allow_module_level=True)

MENDED_CHAIN_ID = 1
MENDED_TO = Address(bytes.fromhex("00000000000000000000000000000000deadbeef"))


@frozen
class Published:
    """One transaction as ethers publishes it, and what its unsigned bytes say, read without any code of ours."""

    name: str
    key: str
    stated: Mapping[str, Any]
    unsigned: bytes
    signed: bytes

    @property
    def fields(self) -> list[Any]:
        return cast("list[Any]", rlp.decode(self.unsigned[1:]))

    def number(self, place: int) -> int:
        return int.from_bytes(self.fields[place], "big")


def loaded(name: str) -> list[dict[str, Any]]:
    with gzip.open(DATA / name) as packed:
        return cast("list[dict[str, Any]]", json.load(packed))


def published() -> list[Published]:
    return [
        Published(
            name=case["name"],
            key=case["privateKey"],
            stated=case["transaction"],
            unsigned=bytes.fromhex(case["unsignedLondon"][2:]),
            signed=bytes.fromhex(case["signedLondon"][2:]),
        )
        for case in loaded("transactions.json.gz")
    ]


def ring_of(case: Published) -> SignerKeys:
    return parse_signer_keys(json.dumps([case.key]))


def request_of(case: Published, signer: Address) -> SigningRequest:
    """The published fields as our request. What ethers leaves out is zero or empty; a missing `to` stays missing."""
    stated = case.stated

    def number(name: str) -> int:
        value = stated.get(name, 0)
        return value if isinstance(value, int) else int(value, 16)

    to = Address.parse(stated["to"]) if stated.get("to") else None
    return SigningRequest(
        chain_id=number("chainId"),
        signer=signer,
        nonce=number("nonce"),
        to=cast("Address", to),
        value_wei=number("value"),
        data=bytes.fromhex(stated.get("data", "0x")[2:]),
        gas_limit=number("gasLimit"),
        max_fee_per_gas_wei=number("maxFeePerGas"),
        max_priority_fee_per_gas_wei=number("maxPriorityFeePerGas"),
        access_list=tuple(
            (Address.parse(entry["address"]), tuple(bytes.fromhex(key[2:]) for key in entry["storageKeys"]))
            for entry in stated.get("accessList", [])
        ),
    )


def reservation_of(request: SigningRequest) -> Reservation:
    to = cast("Address | None", request.to) or MENDED_TO
    return Reservation(
        request.chain_id,
        request.signer,
        request.nonce,
        call_hash(request.chain_id, to, request.value_wei, request.data),
    )


def policy_for(cases: list[Published]) -> SigningPolicy:
    """Every chain of the data allowed, and ceilings out of the way: what is refused then is refused for itself."""
    chain_ids = {case.number(0) for case in cases} - {0} | {MENDED_CHAIN_ID}
    return SigningPolicy(frozenset(chain_ids), max_fee_per_gas_wei_max=2**256 - 1, gas_limit_max=2**64 - 1)


# What each refusal claims, checked on the published bytes themselves: place in the RLP list, and what must hold there.
CLAIMS: dict[Rule, Callable[[Published], bool]] = {
    Rule.CHAIN_ID_MISSING: lambda case: case.fields[0] == b"",
    Rule.TO_MISSING: lambda case: case.fields[5] == b"",
    Rule.GAS_LIMIT_TOO_LOW: lambda case: case.number(4) < 21_000,
    Rule.MAX_FEE_NOT_POSITIVE: lambda case: case.number(3) == 0,
    Rule.PRIORITY_FEE_ABOVE_MAX_FEE: lambda case: case.number(2) > case.number(3),
}


def encoded_independently(fields: list[Any], key: str) -> bytes:
    """EIP-1559 in four lines, to answer for requests nobody published. It is held to all the published bytes first."""
    digest = keccak(b"\x02" + rlp.encode(fields))
    signature = PrivateKey(bytes.fromhex(key[2:])).sign_recoverable(digest, hasher=None)
    words = [signature[64:], signature[:32], signature[32:64]]
    return b"\x02" + rlp.encode([*fields, *(word.lstrip(b"\x00") for word in words)])


def mended(request: SigningRequest) -> SigningRequest:
    """The refused request with no more than the refused fields made acceptable."""
    fee_wei = request.max_fee_per_gas_wei or 1
    return evolve(
        request,
        chain_id=request.chain_id or MENDED_CHAIN_ID,
        to=cast("Address | None", request.to) or MENDED_TO,
        gas_limit=max(request.gas_limit, 21_000),
        max_fee_per_gas_wei=fee_wei,
        max_priority_fee_per_gas_wei=min(request.max_priority_fee_per_gas_wei, fee_wei),
    )


def minimal(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def test_every_published_transaction_is_signed_alike_or_refused_for_cause(capsys: pytest.CaptureFixture[str]) -> None:
    """Goal: our bytes are the published bytes; a refusal is never an excuse.

    Method: each transaction is either signed, and equal to the published bytes, or refused, and each reason given is
    found true in the published bytes. Nothing bypasses validation. The table goes to the terminal.
    """
    cases = published()
    policy = policy_for(cases)
    signed: list[str] = []
    refused: Counter[str] = Counter()
    example: dict[str, str] = {}
    for case in cases:
        ring = ring_of(case)
        (address,) = ring.addresses
        request = request_of(case, address)
        reasons = refusals(request, policy, reservation_of(request))
        if reasons:
            assert all(CLAIMS[reason.rule](case) for reason in reasons), (case.name, [str(each) for each in reasons])
            rules = ", ".join(sorted(reason.rule.value for reason in reasons))
            refused[rules] += 1
            example.setdefault(rules, case.name)
        else:
            result = LocalSigner(ring, policy).sign(request, reservation_of(request))
            assert result.raw.reveal() == case.signed, case.name
            assert result.tx_hash == keccak(case.signed)
            assert not any(claim(case) for claim in CLAIMS.values()), case.name
            signed.append(case.name)
    assert len(signed) + refused.total() == len(cases)
    assert len(signed) > 0
    table = [f"EIP-1559 transactions published: {len(cases)}; signed byte for byte: {len(signed)}; refused:"]
    table += [f"  {count:5}  {rules}  (as {example[rules]})" for rules, count in refused.most_common()]
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join(table) + "\n")


def test_refused_transactions_are_signed_alike_once_mended() -> None:
    """Goal: the encoding is right for the shapes that only refused transactions have.

    Method: an encoder of four lines is held to all the published bytes; then each refused request is mended as little
    as possible, signed by the signer, and compared with that encoder.
    """
    cases = published()
    policy = policy_for(cases)
    for case in cases:
        assert encoded_independently(case.fields, case.key) == case.signed, case.name
        ring = ring_of(case)
        (address,) = ring.addresses
        request = mended(request_of(case, address))
        fields = case.fields
        fields[0], fields[5] = minimal(request.chain_id), request.to.value
        fields[2], fields[3] = minimal(request.max_priority_fee_per_gas_wei), minimal(request.max_fee_per_gas_wei)
        fields[4] = minimal(request.gas_limit)
        ours = LocalSigner(ring, policy).sign(request, reservation_of(request))
        assert ours.raw.reveal() == encoded_independently(fields, case.key), case.name


def test_published_signed_bytes_are_read_as_published() -> None:
    """Goal: the decoder, which judges every signature and every unsealed row, reads others' bytes rightly.

    Method: each published transaction with a destination comes back as its fields and its key's address; the others,
    which create contracts, are no transactions of ours.
    """
    for case in published():
        (address,) = ring_of(case).addresses
        request = request_of(case, address)
        read = decode(Opaque(case.signed))
        assert (read == request) if case.fields[5] else not isinstance(read, SigningRequest), case.name


def test_published_accounts_have_the_published_addresses() -> None:
    """Goal: a key stands under its own address. Method: derive each published account, by list and by object."""
    accounts = loaded("accounts.json.gz")
    assert accounts
    for account in accounts:
        stated = Address.parse(account["address"])
        assert parse_signer_keys(json.dumps([account["privateKey"]])).addresses == (stated,), account["name"]
        assert parse_signer_keys(json.dumps({account["address"]: account["privateKey"]})).addresses == (stated,)
