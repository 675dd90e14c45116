"""The reference protocol and its batch executor on a real node (INT-5, INT-9)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from attrs import evolve
from eth_utils.crypto import keccak

from rpc.errors import Reverted
from tayho.intents.signing import digest_of
from tayho.protocol import abi
from tayho.protocol.intents import Action, arguments_of
from tests.protocol.reference import EXECUTOR, MARKET, PROTOCOL, STIPEND, Key, Reference, reference_on_anvil

pytestmark = pytest.mark.services

BURNS = bytes.fromhex("5b600056")  # a loop without end
RETURNS_A_MEGABYTE = bytes.fromhex("621000006000f3")
REVERTS = bytes.fromhex("60006000fd")
GROUP_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141


@pytest.fixture
async def reference(tmp_path: Path) -> AsyncIterator[Reference]:
    async with reference_on_anvil(tmp_path) as running:
        yield running


async def reason_of(reference: Reference, function: str, *arguments: object) -> str:
    """By what name of its own the protocol refuses a call."""
    with pytest.raises(Reverted) as refused:
        await reference.view(function, *arguments)
    reason = abi.decode_error(PROTOCOL, refused.value.data or b"")
    return "" if reason is None else reason.name


async def test_the_contract_and_we_digest_alike(reference: Reference) -> None:
    """Goal: what the engine verifies is what the chain verifies. Method: the digest of many intents, from both."""
    for number in range(40):
        size = (-1) ** number * 3**number
        intent = evolve(reference.order(size), salt=7**number * 31, payload=bytes([number]) * (number * 3))
        assert await reference.view("digestOf", arguments_of(intent)) == digest_of(intent, reference.domain)


async def test_each_refusal_has_its_name(reference: Reference) -> None:
    """Goal: every way in which an intent is not wanted is told apart. Method: one intent, spoiled in each way."""
    good = reference.signed(reference.order())
    digest = digest_of(good.intent, reference.domain)
    assert await reference.view("verify", arguments_of(good.intent), good.signature) == digest

    async def refusal(intent: object, signature: bytes) -> str:
        return await reason_of(reference, "verify", intent, signature)

    late = reference.signed(reference.order(deadline=1))
    assert await refusal(arguments_of(late.intent), late.signature) == "DeadlinePassed"
    s = GROUP_ORDER - int.from_bytes(good.signature[32:64], "big")
    flipped = good.signature[:32] + s.to_bytes(32, "big") + bytes([55 - good.signature[64]])
    assert await refusal(arguments_of(good.intent), flipped) == "SignatureMalleable"
    assert await refusal(arguments_of(good.intent), good.signature[:-1]) == "SignatureMalformed"
    stranger = reference.signed(good.intent, key=Key())
    assert await refusal(arguments_of(good.intent), stranger.signature) == "SessionUnknown"
    other = evolve(good.intent, account=reference.accounts[2])
    assert await refusal(arguments_of(other), good.signature) == "SessionUnknown"
    unknown = reference.signed(evolve(good.intent, action=63))
    assert await refusal(arguments_of(unknown.intent), unknown.signature) == "ActionNotPermitted"
    await reference.execute([good])
    assert await refusal(arguments_of(good.intent), good.signature) == "IntentSpent"
    fresh = reference.signed(reference.order())
    await reference.do("revokeSession", reference.key.address, account=1)
    assert await refusal(arguments_of(fresh.intent), fresh.signature) == "SessionUnknown"


async def test_a_session_is_bound_to_its_actions_its_market_and_its_time(reference: Reference) -> None:
    """Goal: a key does no more than its account allowed. Method: a narrow session, and intents just outside of it."""
    key = Key()
    scope = (key.address, 1 << Action.PLACE_ORDER, MARKET, 2**40)
    await reference.do("grantSession", *scope, account=1)
    inside = reference.signed(reference.order(), key=key)
    await reference.view("verify", arguments_of(inside.intent), inside.signature)
    outside = reference.signed(evolve(inside.intent, market=bytes(32)), key=key)
    assert await reason_of(reference, "verify", arguments_of(outside.intent), outside.signature) == "MarketOutOfScope"
    claim = reference.signed(reference.intent(Action.CLAIM, "address,uint256", reference.account, 1), key=key)
    assert await reason_of(reference, "verify", arguments_of(claim.intent), claim.signature) == "ActionNotPermitted"


async def test_a_culprit_hurts_no_sibling(reference: Reference) -> None:
    """Goal: no child can take from another (INT-5). Method: one batch of a child that burns all it gets, one that
    returns a megabyte, one that reverts, one that calls the executor again, one spent twice, and honest ones between
    them: each has its own result, in its own place."""
    again = reference.signed(reference.order(99))
    culprits = [
        reference.withdrawal(await reference.set_code(BURNS)),
        reference.withdrawal(await reference.set_code(RETURNS_A_MEGABYTE)),
        reference.withdrawal(await reference.set_code(REVERTS)),
        reference.withdrawal(await reference.set_code(_reentering(reference, again.arguments()))),
    ]
    honest = [reference.signed(reference.order(number)) for number in range(1, 6)]
    children = [honest[0]]
    for culprit, sibling in zip(culprits, honest[1:], strict=True):
        children += [reference.signed(culprit), sibling]
    children.append(honest[0])

    receipt, results = await reference.execute(children)

    assert receipt.succeeded
    assert [result.index for result in results] == list(range(len(children)))
    assert [result.digest for result in results] == [digest_of(child.intent, reference.domain) for child in children]
    assert [result.success for result in results] == [child in honest for child in children[:-1]] + [False]
    assert await reference.view("orderCount") == len(honest)
    assert await reference.view("spent", digest_of(again.intent, reference.domain)) is False
    assert await reference.view("spent", digest_of(culprits[0], reference.domain)) is False


@pytest.mark.parametrize("stipend", [30_000, 100_000, STIPEND, 1_000_000])
async def test_a_child_costs_no_more_than_its_stipend(reference: Reference, stipend: int) -> None:
    """Goal: the bound that the coordinator counts with is real. Method: the gas of a batch with a child that burns,
    less that of the same batch whose child reverts at once, for several stipends."""
    burning = reference.signed(reference.withdrawal(await reference.set_code(BURNS)), stipend=stipend)
    burnt, (result,) = await reference.execute([burning])
    assert burnt.succeeded
    assert not result.success
    empty, _ = await reference.execute([evolve(burning, stipend=0)])
    # The number itself is calldata: twelve gas more for each byte that is not zero (EIP-2028).
    written = 12 * sum(byte != 0 for byte in stipend.to_bytes(8, "big"))
    assert 0 < burnt.gas_used - empty.gas_used <= stipend + written


async def test_too_little_gas_makes_no_child_fail(reference: Reference) -> None:
    """Goal: a relayer cannot spoil a child by sending less gas (EIP-150). Method: every gas limit from too little to
    enough, in steps: either the whole batch reverts, or the honest child succeeds."""
    seen: set[bool] = set()
    for gas in range(150_000, 600_000, 25_000):
        child = reference.signed(reference.order())
        receipt, results = await reference.execute([child], gas=gas)
        seen.add(receipt.succeeded)
        assert [result.success for result in results] == ([True] if receipt.succeeded else [])
    assert seen == {True, False}


async def test_the_result_names_what_was_returned(reference: Reference) -> None:
    """Goal: a result can be checked against its log. Method: the digest of the order's id, and of the refusal."""
    good, bad = reference.signed(reference.order()), reference.signed(reference.order(0))
    _, (first, second) = await reference.execute([good, bad])
    returned = abi.codec.encode(["bytes"], [(1).to_bytes(32, "big")])
    assert first.return_data_digest == bytes(keccak(returned))
    assert second.return_data_digest == bytes(keccak(PROTOCOL.errors["OrderEmpty"].selector))


async def test_every_fact_is_posted_once_by_its_role(reference: Reference) -> None:
    """Goal: redundant keepers do no harm: a second call already fails when it is simulated. Method: each keeper's call
    without its role, with it, and again."""
    keeper = reference.accounts[0]
    order = reference.signed(reference.order(5))
    claim = reference.signed(reference.intent(Action.CLAIM, "address,uint256", reference.account, 10_000))
    await reference.execute([order, claim])
    calls = {
        "automation": ("executeOrder", (1,), "OrderNotOpen"),
        "funding-oracle": ("postFunding", (MARKET, 7, -3), "PostedAlready"),
        "depth-attester": ("attestDepth", (MARKET, 7, 9), "PostedAlready"),
        "resolution-attester": ("attestResolution", (MARKET, 1), "PostedAlready"),
        "payouts": ("payClaim", (1,), "ClaimPaidAlready"),
        "revenue": ("distributeRevenue", (7, keeper), "DistributedAlready"),
        "guardian": ("pauseMarket", (MARKET, b"\x01" * 32), "MarketIsPaused"),
    }
    for role, (function, arguments, repeated) in calls.items():
        assert await reason_of(reference, function, *arguments) == "RoleMissing"
        await reference.do("grantRole", role.encode().ljust(32, b"\0"), keeper)
        assert (await reference.do(function, *arguments)).succeeded
        assert await reason_of(reference, function, *arguments) == repeated
    assert await reference.view("positions", reference.account, MARKET) == 5


def _reentering(reference: Reference, child: tuple[object, ...]) -> bytes:
    """Code that calls the executor with a batch of its own, and reverts if that is refused."""
    data = abi.encode_call(EXECUTOR, "executeBatch", [bytes(32), (child,)])
    size, at = len(data).to_bytes(2, "big"), (56).to_bytes(2, "big")
    copy = b"\x61" + size + b"\x61" + at + b"\x60\x00\x39"
    call = b"\x60\x00\x60\x00\x61" + size + b"\x60\x00\x60\x00\x73" + reference.executor.value + b"\x5a\xf1"
    end = b"\x60" + bytes([len(copy + call) + 8]) + b"\x57\x60\x00\x60\x00\xfd\x5b\x00"
    code = copy + call + end
    assert len(code) <= 56, len(code)
    return code.ljust(56, b"\0") + data
