"""An intent is taken once, and only if everything about it is right (INT-2, INT-3)."""

from __future__ import annotations

from collections import Counter

import pytest
import trio
from attrs import evolve
from coincurve import PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from tayho.custody.recovery import recovered
from tayho.intents.admission import MOST_SECONDS, S_MAX, examine, require_in_time
from tayho.intents.errors import (
    DeadlinePassed,
    DeadlineTooFar,
    IntentMalformed,
    IntentNotPermitted,
    IntentRefused,
    SignatureMalformed,
    SignatureMalleable,
)
from tayho.intents.signing import digest_of
from tayho.intents.types import Accepted, IntentDomain, NotPermitted, SignedIntent
from tayho.kernel.address import Address
from tests.intents.conftest import DOMAIN, HOUR, Line, intent, signed

NOW = 1_800_000_000
GROUP_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
KEY = PrivateKey(b"\x01" * 32)
GOOD = signed(intent(deadline=NOW + 60), KEY)


def examined(one: SignedIntent, domain: IntentDomain = DOMAIN) -> Address:
    examined = examine(one, domain, recover=recovered)
    require_in_time(one.intent, now=NOW)
    return examined.session_key


@pytest.mark.services
async def test_the_same_intent_a_hundred_times_is_one_job(line: Line) -> None:
    """Goal: whoever submits, and however often, makes one job and hears the same (INT-2). Method: a hundred at once."""
    one = signed(intent(), line.key)
    answers: list[Accepted] = []

    async def submit() -> None:
        answers.append(await line.intents.submit(one))

    async with trio.open_nursery() as submitters:
        for _ in range(100):
            submitters.start_soon(submit)

    assert Counter(answer.created for answer in answers) == {True: 1, False: 99}
    assert len({(answer.job_id, answer.digest) for answer in answers}) == 1
    assert {answer.state for answer in answers} == {"pending_batch"}
    async with line.plane.database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM intents.intents") == 1
        assert await connection.fetchval("SELECT count(*) FROM coordination.jobs") == 1
        assert await connection.fetchval("SELECT count(*) FROM coordination.outbox") == 0


@pytest.mark.services
async def test_a_known_intent_is_answered_although_it_is_not_permitted_any_more(line: Line) -> None:
    """Goal: a client that asks again hears of its job also after the intent was spent. Method: take it, let the chain
    refuse it, submit it again; another intent is refused, with the chain's own reason, and leaves nothing."""
    one = signed(intent(), line.key)
    first = await line.intents.submit(one)
    line.refusal = NotPermitted("IntentSpent")
    again = await line.intents.submit(one)
    assert (again.job_id, again.created) == (first.job_id, False)
    with pytest.raises(IntentNotPermitted, match="IntentSpent"):
        await line.intents.submit(signed(intent(salt=1), line.key))
    assert await line.intents.status(first.job_id) is not None
    async with line.plane.database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM intents.intents") == 1


@pytest.mark.services
async def test_a_known_intent_is_answered_after_its_deadline(line: Line) -> None:
    """Goal: a client that lost the answer learns that its wish was taken, and does not sign it again: that would take
    effect twice. Method: take it, let the clock pass its deadline, submit it again; a new one of that deadline is
    refused before the chain is asked."""
    one = signed(intent(), line.key)
    first = await line.intents.submit(one)
    line.late_seconds = 2 * HOUR
    again = await line.intents.submit(one)
    assert (again.job_id, again.created) == (first.job_id, False)
    with pytest.raises(DeadlinePassed):
        await line.intents.submit(signed(intent(salt=1), line.key))
    assert line.asked == 1


@pytest.mark.services
async def test_what_is_malformed_never_reaches_the_chain(line: Line) -> None:
    """Goal: a flood of rubbish costs no request to a node. Method: a bad signature; the chain was not asked."""
    with pytest.raises(SignatureMalformed):
        await line.intents.submit(SignedIntent(intent(), bytes(65)))
    assert line.asked == 0


def test_who_signed_is_found() -> None:
    """Goal: the session key is the one that signed. Method: recover it from the signature."""
    assert examined(GOOD) == Address(recovered(digest_of(GOOD.intent, DOMAIN), GOOD.signature[64] - 27, *_r_s(GOOD)))


@pytest.mark.parametrize(
    ("spoiled", "refusal"),
    [
        pytest.param(evolve(GOOD, signature=GOOD.signature[:-1]), SignatureMalformed, id="short"),
        pytest.param(evolve(GOOD, signature=GOOD.signature + b"\0"), SignatureMalformed, id="long"),
        pytest.param(evolve(GOOD, signature=b""), SignatureMalformed, id="none"),
        pytest.param(evolve(GOOD, signature=GOOD.signature[:64] + b"\x00"), SignatureMalformed, id="v of 0"),
        pytest.param(evolve(GOOD, signature=GOOD.signature[:64] + b"\xff"), SignatureMalformed, id="v of 255"),
        pytest.param(evolve(GOOD, signature=b"\xff" * 32 + GOOD.signature[32:]), SignatureMalformed, id="r too great"),
        pytest.param(evolve(GOOD, signature=bytes(32) + GOOD.signature[32:]), SignatureMalformed, id="r of 0"),
        pytest.param(signed(intent(deadline=NOW), KEY), DeadlinePassed, id="now"),
        pytest.param(signed(intent(deadline=0), KEY), DeadlinePassed, id="1970"),
        pytest.param(signed(intent(deadline=NOW + MOST_SECONDS + 1), KEY), DeadlineTooFar, id="too far"),
        pytest.param(evolve(GOOD, intent=evolve(GOOD.intent, action=64)), IntentMalformed, id="action"),
        pytest.param(evolve(GOOD, intent=evolve(GOOD.intent, payload=bytes(4_097))), IntentMalformed, id="payload"),
        pytest.param(evolve(GOOD, intent=evolve(GOOD.intent, salt=2**256)), IntentMalformed, id="salt"),
        pytest.param(evolve(GOOD, intent=evolve(GOOD.intent, market=b"")), IntentMalformed, id="market"),
    ],
)
def test_each_fault_has_its_class(spoiled: SignedIntent, refusal: type[IntentRefused]) -> None:
    """Goal: a client learns what to mend. Method: the good intent, spoiled in one way each."""
    with pytest.raises(refusal):
        examined(spoiled)


def test_the_other_writing_of_a_signature_is_refused() -> None:
    """Goal: one intent has one signature (EIP-2). Method: negate s and flip v, as anybody can."""
    r, s = _r_s(GOOD)
    flipped = r.to_bytes(32, "big") + (GROUP_ORDER - s).to_bytes(32, "big") + bytes([55 - GOOD.signature[64]])
    assert GROUP_ORDER - s > S_MAX
    with pytest.raises(SignatureMalleable):
        examined(evolve(GOOD, signature=flipped))


@given(chain_id=st.integers(1, 2**63), protocol=st.binary(min_size=20, max_size=20))
def test_a_signature_for_another_chain_or_contract_is_another_key(chain_id: int, protocol: bytes) -> None:
    """Goal: no replay across chains and contracts. Method: examine the good intent for any other domain: whoever it
    recovers to is not the session key."""
    domain = IntentDomain(chain_id, Address(protocol))
    try:
        signer = examined(GOOD, domain)
    except SignatureMalformed:
        return
    assert (signer == examined(GOOD)) == (domain == DOMAIN)


@given(signature=st.binary(max_size=70))
def test_no_bytes_are_anything_but_a_key_or_a_refusal(signature: bytes) -> None:
    """Goal: nothing that a stranger sends is an error of ours. Method: any bytes as a signature."""
    try:
        examined(evolve(GOOD, signature=signature))
    except IntentRefused as error:
        assert error.code.startswith("signature-")


def _r_s(one: SignedIntent) -> tuple[int, int]:
    return int.from_bytes(one.signature[:32], "big"), int.from_bytes(one.signature[32:64], "big")
