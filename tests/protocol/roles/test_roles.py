"""Each role's kind on the real contract: it finds what is due, does it once, and says what it did."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from attrs import evolve

from rpc.errors import Reverted
from rpc.reads import Call
from tayho.kernel.jobs import RequestRefused
from tayho.kinds import Actionable, Discovered, NotActionable, ResultMissing, Work
from tayho.protocol.intents import Action
from tayho.protocol.roles.automation import ExecuteOrder
from tayho.protocol.roles.depth_attester import AttestDepth
from tayho.protocol.roles.funding_oracle import PostFunding
from tayho.protocol.roles.guardian import PauseMarket
from tayho.protocol.roles.payouts import PayClaim
from tayho.protocol.roles.resolution_attester import AttestResolution
from tayho.protocol.roles.revenue import DistributeRevenue
from tests.protocol.chain import send
from tests.protocol.reference import MARKET, reference_on_anvil
from tests.protocol.roles.playing import EPOCH_SECONDS, World, granted, job_of

pytestmark = pytest.mark.services

# Runtime code that reverts, and code that burns all the gas it gets.
REVERTS = bytes.fromhex("60006000fd")
BURNS = bytes.fromhex("5b600056")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with reference_on_anvil(tmp_path) as reference:
        await granted(reference)
        yield World(reference, tmp_path)


async def test_without_a_protocol_nothing_is_discovered() -> None:
    """Goal: a deployment without these variables is quiet. Method: every kind, unprepared, asks the node nothing."""
    kinds = (ExecuteOrder, PostFunding, AttestDepth, AttestResolution, PauseMarket, DistributeRevenue, PayClaim)
    for kind in kinds:
        assert await kind().discover(None) == Discovered()  # type: ignore[arg-type]


async def test_automation_executes_what_is_due_and_nothing_else(world: World) -> None:
    """Goal: an order is executed once, when it is due and its market runs. Method: two due orders, a later one,
    one that its owner cancels; a pause in between; time goes on."""
    automation = world.player(ExecuteOrder())
    assert await automation.carry_out() == []
    later = await world.now() + EPOCH_SECONDS
    for not_before in (0, 0, later, 0):
        await world.place(not_before)
    cancel = world.reference.intent(Action.CANCEL_ORDER, "uint256", 4)
    await world.reference.execute([world.reference.signed(cancel)])
    await world.reference.do("pauseMarket", MARKET, b"test".ljust(32, b"\0"))
    assert await automation.carry_out() == []
    await world.reference.do("resumeMarket", MARKET)
    done = await automation.carry_out()
    account = str(world.reference.account)
    assert [one.result for one in done] == [{"account": account, "position": f"{n}"} for n in (1, 2)]
    assert [one.key.partition("/")[0] for one in done] == ["1", "2"]
    assert await automation.carry_out() == []
    await world.next_epoch()
    assert [one.key.partition("/")[0] for one in await automation.carry_out()] == ["3"]


async def test_an_order_that_became_another_is_not_executed(world: World) -> None:
    """Goal: after a reorganisation a number may be another order's. Method: the found terms differ from the chain's;
    a cancelled, a paused and a not yet due order are refused too, each with its reason."""
    automation = world.player(ExecuteOrder())
    await world.place()
    (work,) = (await automation.discover()).work
    other = evolve(work, request={**work.request, "terms": "0x" + "00" * 32})
    refused = await automation.revalidate(other)
    assert isinstance(refused, NotActionable)
    assert "other terms" in refused.reason
    await world.reference.do("pauseMarket", MARKET, bytes(32))
    refused = await automation.revalidate(work)
    assert isinstance(refused, NotActionable)
    assert "paused" in refused.reason


@pytest.mark.parametrize(
    "change", [{"order": "1"}, {"order": True}, {"protocol": "0x12"}, {"terms": "0xzz"}, {"more": 1}, {"order": -1}]
)
async def test_a_request_that_is_none_is_refused_for_good(change: dict[str, object]) -> None:
    """Goal: a producer's slip is set aside, not tried for ever. Method: each field wrong in one way."""
    kind = ExecuteOrder()
    good = {"protocol": "0x" + "77" * 20, "order": 1, "terms": "0x" + "00" * 32}
    await kind.call(job_of(kind, Work("w", good)))
    with pytest.raises(RequestRefused):
        await kind.call(job_of(kind, Work("w", {**good, **change})))  # type: ignore[dict-item]


@pytest.mark.parametrize("kind", [PostFunding, AttestDepth])
async def test_a_fact_is_posted_once_an_epoch(world: World, kind: type[PostFunding] | type[AttestDepth]) -> None:
    """Goal: funding and depth are posted once per market and epoch, each epoch's first observation. Method: three
    epochs with a fact each, looked at twice in each."""
    oracle, name = world.player(kind()), kind.view_name
    for value in (10, -20, 30):
        await world.next_epoch()
        await world.tell(name, value)
        (done,) = await oracle.carry_out()
        assert done.result == {"value": str(value)}
        await world.tell(name, value + 1)
        assert await oracle.carry_out() == []
        epoch = await world.now() // EPOCH_SECONDS
        assert (await world.reference.view(name, MARKET, epoch))[:2] == (True, value)  # type: ignore[index]


async def test_a_source_that_is_not_to_be_believed_makes_a_finding_and_no_work(world: World) -> None:
    """Goal: must-show 8. Method: an oracle whose source is stopped, stale, ahead, out of bounds, further than a step
    from the last posted fact, or nonsense: no work each time, and the finding of that name; then one to believe."""
    oracle = world.player(PostFunding())
    await world.tell("funding", 0)
    assert len(await oracle.carry_out()) == 1
    await world.next_epoch()
    (world.folder / "funding.json").unlink()
    told: list[tuple[str, ...]] = []

    async def look() -> None:
        found = await oracle.discover()
        assert found.work == ()
        told.append(tuple(one.name for one in found.findings))
        assert {one.subject for one in found.findings} == {"M/funding"}

    await look()
    for value, age in (("5", 601), ("5", -61), ("1001", 0), ("1e999", 0), ("51", 0), ("NaN", 0), ('"x"', 0)):
        await world.tell("funding", value, age=age)
        await look()
    names = ["silent", "stale", "ahead", "absurd", "unusable", "jumped", "unusable", "unusable"]
    assert told == [(name,) for name in names]
    # Two epochs after the last fact a step may be twice as far.
    await world.next_epoch()
    await world.tell("funding", 51)
    assert [one.result for one in await oracle.carry_out()] == [{"value": "51"}]


async def test_what_is_not_fresh_any_more_is_not_signed(world: World) -> None:
    """Goal: a job that waited in a queue posts no old number. Method: find it, let time pass, revalidate."""
    await world.tell("funding", 5)
    await world.tell("resolution", 1)
    await world.tell("guard", 50)
    for kind in (PostFunding(), AttestResolution(), PauseMarket()):
        player = world.player(kind)
        (work,) = (await player.discover()).work
        assert await player.revalidate(work) == Actionable()
        await world.next_epoch()
        refused = await player.revalidate(work)
        assert isinstance(refused, NotActionable)
        assert "fresh" in refused.reason
        for name, value in (("resolution", 1), ("guard", 50)):
            await world.tell(name, value)


async def test_a_market_is_resolved_once_its_source_tells_an_outcome(world: World) -> None:
    """Goal: null is no outcome, and the first outcome stands. Method: null, an outcome, another one."""
    attester = world.player(AttestResolution())
    await world.tell("resolution", None)
    assert await attester.discover() == Discovered()
    await world.tell("resolution", -7)
    assert [one.result for one in await attester.carry_out()] == [{"outcome": "-7"}]
    await world.tell("resolution", 8)
    assert await attester.discover() == Discovered()


async def test_the_guardian_pauses_on_an_anomaly_and_lets_the_owner_resume(world: World) -> None:
    """Goal: below the floor or above the ceiling stops the market, a bad source does not, and a resumed market is left
    alone for the rest of the epoch. Method: a sane value, both anomalies, an absurd one; the keys of the pauses."""
    guardian = world.player(PauseMarket())
    await world.tell("guard", 100)
    assert await guardian.discover() == Discovered()
    await world.tell("guard", 99)
    (first,) = await guardian.carry_out()
    assert first.result == {"reason": "below the floor"}
    assert await guardian.discover() == Discovered()
    await world.reference.do("resumeMarket", MARKET)
    assert [one.key for one in (await guardian.discover()).work] == [first.key], "the same key is the same job"
    await world.next_epoch()
    await world.tell("guard", 901)
    (second,) = await guardian.carry_out()
    assert second.result == {"reason": "above the ceiling"}
    assert second.key != first.key
    await world.reference.do("resumeMarket", MARKET)
    await world.tell("guard", -1_001)
    found = await guardian.discover()
    assert ([one.name for one in found.findings], found.work) == (["absurd"], ())


async def test_revenue_is_distributed_once_an_epoch_where_some_has_gathered(world: World) -> None:
    """Goal: no empty distribution, and none twice. Method: no fee, then fees in two epochs."""
    revenue, treasury = world.player(DistributeRevenue()), world.reference.accounts[5]
    assert await revenue.discover() == Discovered()
    for _ in range(2):
        withdrawal = world.reference.withdrawal(world.reference.accounts[4], 100_000)
        await world.reference.execute([world.reference.signed(withdrawal)])
        (done,) = await revenue.carry_out()
        assert done.result == {"amount_wei": "100"}
        assert await revenue.discover() == Discovered()
        await world.next_epoch()
    assert treasury == world.settings.treasury


async def test_claims_are_paid_once_and_no_recipient_burns_our_gas(world: World) -> None:
    """Goal: payouts pays each claim once; one that refuses the money, or that burns gas, waits and holds no other up.
    Method: claims of a plain account, of code that reverts, of code that burns; later the code is mended."""
    payouts = world.player(PayClaim())
    reference = world.reference
    recipients = [reference.accounts[4], await reference.set_code(REVERTS), await reference.set_code(BURNS)]
    for recipient in recipients:
        claim = reference.intent(Action.CLAIM, "address,uint256", recipient, 10_000)
        _, (result,) = await reference.execute([reference.signed(claim)])
        assert result.success
    plain, refusing, burning = (await payouts.discover()).work
    assert await payouts.revalidate(plain) == Actionable()
    for work in (refusing, burning):
        refused = await payouts.revalidate(work)
        assert isinstance(refused, NotActionable)
        assert "does not take the money" in refused.reason
    await reference.endpoint.ask(Call("anvil_setCode", (str(recipients[1]), "0x"), lambda _: None, is_write=True))
    assert await payouts.revalidate(refusing) == Actionable()
    await reference.endpoint.ask(Call("anvil_setCode", (str(recipients[2]), "0x"), lambda _: None, is_write=True))
    assert [one.result for one in await payouts.carry_out()] == [{"amount_wei": "9990"}] * 3
    assert await payouts.discover() == Discovered()


async def test_a_receipt_without_the_event_says_nothing(world: World) -> None:
    """Goal: nothing is guessed of a receipt (must-show 4). Method: another call's receipt, foreign logs, the
    event twice, no log at all."""
    automation = world.player(ExecuteOrder())
    for _ in range(2):
        await world.place()
    first, second = (await automation.discover()).work
    call = await automation.kind.call(job_of(automation.kind, first))  # type: ignore[attr-defined]
    with pytest.raises(Reverted) as reverted:
        await world.reference.view("executeOrder", 9)
    assert automation.kind.revert_reason(reverted.value.data or b"") == "OrderNotOpen(orderId=9, state=0)"
    receipt = await send(world.reference.endpoint, world.reference.accounts[0], call.to, call.data)
    read = automation.kind.result_of  # type: ignore[attr-defined]
    assert read(job_of(automation.kind, first), receipt)
    doubled = evolve(receipt, logs=receipt.logs * 2)
    foreign = evolve(receipt, logs=tuple(evolve(log, address=bytes(20)) for log in receipt.logs))
    for job, wrong in ((second, receipt), (first, doubled), (first, foreign), (first, evolve(receipt, logs=()))):
        with pytest.raises(ResultMissing):
            read(job_of(automation.kind, job), wrong)
