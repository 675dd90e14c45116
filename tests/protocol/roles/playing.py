"""Carrying a kind's work out by hand: discover, revalidate, call, and what the receipt says."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from attrs import define, field, frozen

from rpc import methods
from rpc.reads import Call
from tayho.kernel.ids import new_id
from tayho.kernel.jobs import Job
from tayho.kernel.json_document import Json
from tayho.kernel.markets import Bounds, EpochFeed, Feed, Guard, Market, ProtocolSettings, SourceSettings
from tayho.kinds import Actionable, Discovered, NotActionable, Surroundings, Work
from tayho.protocol.intents import Action
from tayho.protocol.roles.kind import ProtocolKind
from tests.protocol.chain import send
from tests.protocol.reference import CHAIN, MARKET, Reference

EPOCH_SECONDS = 3_600
BOUNDS = Bounds(minimum=-1_000, maximum=1_000, age_seconds_max=600, change_max=50)


@frozen
class Carried:
    """What came of one piece of work."""

    key: str
    result: Json


@define
class Player:
    """One kind on the reference protocol; the account that sends holds every role."""

    reference: Reference
    kind: ProtocolKind

    async def discover(self) -> Discovered:
        return await self.kind.discover(self.reference.endpoint)  # type: ignore[attr-defined]

    async def carry_out(self) -> list[Carried]:
        """Find work and do all of it."""
        found = await self.discover()
        assert not found.findings, found.findings
        return [await self._carry_out(work) for work in found.work]

    async def _carry_out(self, work: Work) -> Carried:
        job = job_of(self.kind, work)
        assert await self.revalidate(work) == Actionable()
        call = await self.kind.call(job)  # type: ignore[attr-defined]
        receipt = await send(self.reference.endpoint, self.reference.accounts[0], call.to, call.data)
        assert receipt.succeeded
        assert isinstance(await self.revalidate(work), NotActionable)
        return Carried(work.key, self.kind.result_of(job, receipt))  # type: ignore[attr-defined]

    async def revalidate(self, work: Work) -> Actionable | NotActionable:
        return await self.kind.revalidate(job_of(self.kind, work), self.reference.endpoint)  # type: ignore[attr-defined]


def job_of(kind: ProtocolKind, work: Work) -> Job:
    now = datetime.now(UTC)
    return Job(new_id(), CHAIN.chain_id, "test", kind.role, kind.name, work.key, work.request, 1, False, now)


def market(folder: Path) -> Market:
    """The reference market, its facts in files of the folder."""

    def at(name: str) -> dict[str, object]:
        path = str(folder / f"{name}.json")
        source = SourceSettings(location=path, value_at="/value", timestamp_at="/at")
        return {"name": f"M/{name}", "source": source, "bounds": BOUNDS}

    return Market(
        name="M",
        market_id=MARKET,
        funding=EpochFeed(**at("funding"), epoch_seconds=EPOCH_SECONDS),  # type: ignore[arg-type]
        depth=EpochFeed(**at("depth"), epoch_seconds=EPOCH_SECONDS),  # type: ignore[arg-type]
        resolution=Feed(**at("resolution")),  # type: ignore[arg-type]
        guard=Guard(**at("guard"), epoch_seconds=EPOCH_SECONDS, floor=100, ceiling=900),  # type: ignore[arg-type]
    )


@define
class World:
    """The reference protocol with its keepers' roles granted to the account that sends, and the facts in files."""

    reference: Reference
    folder: Path
    settings: ProtocolSettings = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.settings = ProtocolSettings(
            address=self.reference.protocol,
            markets={"M": market(self.folder)},
            treasury=self.reference.accounts[5],
            revenue_epoch_seconds=EPOCH_SECONDS,
        )

    def player(self, kind: ProtocolKind) -> Player:
        kind.prepare(Surroundings(CHAIN.chain_id, "test", self.settings))
        return Player(self.reference, kind)

    async def now(self) -> int:
        head = await self.reference.endpoint.ask(methods.block_by_number("latest"))
        assert head is not None
        return head.timestamp_seconds

    async def tell(self, name: str, value: object, *, age: int = 0) -> None:
        """Let a source tell a value, observed so many seconds before the chain's head."""
        observed = await self.now() - age
        text = value if isinstance(value, str) else str(value).replace("None", "null")
        (self.folder / f"{name}.json").write_text(f'{{"value": {text}, "at": {observed}}}')

    async def next_epoch(self, epochs: int = 1) -> None:
        """Let the chain's time go on."""
        seconds = hex(epochs * EPOCH_SECONDS)
        for method, parameters in (("evm_increaseTime", (seconds,)), ("evm_mine", ())):
            await self.reference.endpoint.ask(Call(method, parameters, lambda _: None, is_write=True))

    async def place(self, not_before: int = 0) -> None:
        """An order, by its owner's intent."""
        intent = self.reference.intent(Action.PLACE_ORDER, "int128,uint64", 1, not_before)
        child = self.reference.signed(intent)
        _, (result,) = await self.reference.execute([child])
        assert result.success


async def granted(reference: Reference) -> None:
    """Every role to the account that sends."""
    for role in (
        *("automation", "funding-oracle", "depth-attester", "resolution-attester", "guardian", "revenue", "payouts"),
    ):
        await reference.do("grantRole", role.encode().ljust(32, b"\0"), reference.accounts[0])
