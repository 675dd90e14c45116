"""Nothing that an answer can be made of is taken for a number that it is not."""

from __future__ import annotations

import json
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction

import pytest
from coincurve import PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from tayho.custody.module import recovered
from tayho.kernel.decimals import DecimalRefused, scaled
from tayho.kernel.markets import Bounds
from tayho.protocol.sources.answers import observation_of, signed_bytes
from tayho.protocol.sources.bounds import refuse_unbelievable
from tayho.protocol.sources.errors import SourceForged, SourceRefused, SourceUnusable
from tayho.protocol.sources.types import Observation, Posted
from tests.custody.oracle import Account
from tests.protocol.sources.answering import NOW, Signer, source

SIGNER = Signer(PrivateKey(b"\x11" * 32))
STRANGER = Signer(PrivateKey(b"\x12" * 32))
SIGNED = source(signer=SIGNER.address, subject_at="/about", subject="ETH-USD")


def document(**changes: object) -> dict[str, object]:
    return {"value": "12", "at": NOW, **changes}


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"value": 5, "at": 1700000000}', 500),
        (b'{"value": "-0.25", "at": 1700000000.9}', -25),
        (b'{"value": 1.5e1, "at": "1700000000"}', 1_500),
        (b'{"value": 100E-2, "at": 1700000000}', 100),
    ],
)
def test_a_number_is_read_exactly(body: bytes, value: int) -> None:
    """Goal: no float on the way. Method: integers, decimals, texts and exponents, in hundredths."""
    assert observation_of(body, source(decimals=2), recovered) == Observation(value, NOW)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"\xff\xfe",
        b"[]",
        b'{"at": 1700000000}',
        b'{"value": 1}',
        b'{"value": 1, "value": 1, "at": 1700000000}',
        b'{"value": NaN, "at": 1700000000}',
        b'{"value": "NaN", "at": 1700000000}',
        b'{"value": "Infinity", "at": 1700000000}',
        b'{"value": 1e999, "at": 1700000000}',
        b'{"value": 1e-999, "at": 1700000000}',
        b'{"value": "1e999999999", "at": 1700000000}',
        b'{"value": 1e999999999999999999999, "at": 1700000000}',
        b'{"value": ' + b"9" * 5_000 + b', "at": 1700000000}',
        b'{"value": "1_0", "at": 1700000000}',
        b'{"value": " 1", "at": 1700000000}',
        '{"value": "\u0661", "at": 1700000000}'.encode(),
        b'{"value": 0.001, "at": 1700000000}',
        b'{"value": true, "at": 1700000000}',
        b'{"value": [1], "at": 1700000000}',
        b'{"value": 1, "at": null}',
        b'{"value": 1, "at": -1}',
        b'{"value": 1, "at": 1e30}',
        b'{"value": ' + b"[" * 40 + b"]" * 40 + b', "at": 1700000000}',
    ],
)
def test_what_is_no_number_is_refused(body: bytes) -> None:
    """Goal: must-show 8, absurd answers. Method: each is read in hundredths and named unusable, whatever it is."""
    with pytest.raises(SourceUnusable):
        observation_of(body, source(decimals=2), recovered)


def test_pointers_reach_into_objects_and_lists() -> None:
    """Goal: RFC 6901. Method: a path with a list, and the two escapes."""
    body = json.dumps({"a/b": [{"~": 7}], "at": NOW * 1_000}).encode()
    told = source(value_at="/a~1b/0/~0", timestamp_units=1_000)
    assert observation_of(body, told, recovered) == Observation(7, NOW)
    for beyond in ("/a~1b/1/~0", "/a~1b/-1/~0", "/a~1b/00/~0", "/a~1b/x"):
        with pytest.raises(SourceUnusable):
            observation_of(body, source(value_at=beyond), recovered)


def test_null_says_that_there_is_nothing_to_tell_yet() -> None:
    """Goal: a market that has not ended is no fault. Method: null as value."""
    assert observation_of(b'{"value": null}', source(), recovered) is None


@pytest.mark.parametrize("spoil", ["", "stranger", "unsigned", "other payload", "short", "high v", "subject"])
def test_only_the_signers_word_about_the_subject_counts(spoil: str) -> None:
    """Goal: who sits between us and the source can change and exchange nothing. Method: a good envelope, and each
    forgery of it: another key, none, a changed text, a broken signature, a true answer about another market."""
    about = "BTC-USD" if spoil == "subject" else "ETH-USD"
    who = STRANGER if spoil == "stranger" else SIGNER
    envelope = who.envelope(json.dumps(document(about=about)))
    match spoil:
        case "other payload":
            envelope["payload"] = envelope["payload"].replace("12", "13")
        case "unsigned":
            envelope = document(about=about)
        case "short":
            envelope["signature"] = envelope["signature"][:-2]
        case "high v":
            envelope["signature"] = envelope["signature"][:-2] + "ff"
        case _:
            pass
    body = json.dumps(envelope).encode()
    if not spoil:
        assert observation_of(body, SIGNED, recovered) == Observation(12, NOW)
        return
    with pytest.raises(SourceForged):
        observation_of(body, SIGNED, recovered)


def test_any_wallet_can_sign_an_answer() -> None:
    """Goal: the form is the usual one. Method: eth-account signs the same text to the same digest."""
    from eth_account.messages import _hash_eip191_message, encode_defunct

    payload = json.dumps(document(about="ETH-USD"))
    message = encode_defunct(text=payload)
    assert _hash_eip191_message(message) == signed_bytes(payload.encode())
    signed = Account.sign_message(message, SIGNER.key.secret)
    body = json.dumps({"payload": payload, "signature": f"0x{signed.signature.hex()}"}).encode()
    assert observation_of(body, SIGNED, recovered) == Observation(12, NOW)


@given(st.decimals(allow_nan=True, allow_infinity=True), st.integers(0, 36))
def test_scaling_is_exact_or_refused(number: Decimal, decimals: int) -> None:
    """Goal: no rounding, for any decimal. Method: compare with fractions."""
    try:
        found = scaled(number, decimals)
    except DecimalRefused:
        if number.is_finite() and abs(number.as_tuple().exponent) < 100:  # pyright: ignore[reportOperatorIssue]
            assert (Fraction(number) * 10**decimals).denominator != 1
    else:
        assert Fraction(number) * 10**decimals == found


@given(st.binary(max_size=300) | st.text(max_size=100).map(str.encode))
def test_no_bytes_raise_anything_else(body: bytes) -> None:
    """Goal: a hostile answer is a finding and never a crash. Method: any bytes, bare and in an envelope."""
    envelope = json.dumps({"payload": body.decode("latin-1"), "signature": "0x" + "1b" * 65}).encode()
    for asked, settings in ((body, source()), (envelope, SIGNED)):
        with suppress(SourceRefused):
            observation_of(asked, settings, recovered)


@given(
    st.integers(-200, 200),
    st.integers(-100, 100),
    st.none() | st.builds(Posted, st.integers(-100, 100), st.integers(1, 8)),
    st.none() | st.integers(1, 50),
)
def test_what_is_believed_is_within_every_bound(
    value: int, age: int, last: Posted | None, change_max: int | None
) -> None:
    """Goal: must-show 8, stale and absurd values. Method: any observation, judged once more by the definition."""
    bounds = Bounds(minimum=-50, maximum=60, age_seconds_max=30, ahead_seconds_max=5, change_max=change_max)
    is_timely = -5 <= age <= 30
    is_sane = -50 <= value <= 60
    is_near = last is None or change_max is None or abs(value - last.value) <= change_max * last.epochs_ago
    try:
        refuse_unbelievable(Observation(value, NOW - age), bounds, NOW, last)
    except SourceRefused as refused:
        assert not (is_timely and is_sane and is_near)
        expected = ("stale" if age > 0 else "ahead") if not is_timely else "absurd" if not is_sane else "jumped"
        assert refused.name == expected
    else:
        assert is_timely
        assert is_sane
        assert is_near
