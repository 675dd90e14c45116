"""Gathering what PostgreSQL and the endpoints know of a lineage. Any process may ask: no key is needed."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import trio

from rpc import methods
from rpc.errors import RpcError
from rpc.member import Member
from rpc.reads import Call
from rpc.values import Header, Receipt, Transaction
from storage.connection import Connection, Row
from storage.database import Database
from storage.rows import value_from
from tayho.kernel.address import Address
from tayho.transactions import store
from tayho.transactions.explaining.types import (
    BroadcastRecord,
    DoubtfulLine,
    EngineRules,
    EventRecord,
    FindingRecord,
    HaltRecord,
    LaneFacts,
    LaneLine,
    LineageFacts,
    LineageWhole,
    MemberSeen,
    NodeSight,
    PoolLook,
    ReceiptRecord,
)
from tayho.transactions.types import MemberRecord

# A lineage that is sent at every tick for days has more answers than anybody reads: the newest are shown.
BROADCASTS_MAX = 200
FINDINGS_MAX = 50


class LineageReader:
    """Reads the lineages and lanes of one (chain, environment). Changes nothing."""

    def __init__(self, database: Database, chain_id: int, environment: str) -> None:
        self._database = database
        self._chain_id = chain_id
        self._environment = environment

    async def find(self, named: UUID | bytes) -> list[UUID]:
        """The lineages of this id (a job's or its own) or transaction hash, the newest first."""
        asked = (named, None) if isinstance(named, UUID) else (None, named)
        async with self._database.connection() as connection:
            rows = await store.FIND_LINEAGES(connection, self._chain_id, self._environment, *asked)
        return [row["lineage_id"] for row in rows]

    async def whole(self, lineage_id: UUID) -> LineageWhole | None:
        """Everything but the signed bytes; None where there is no such lineage."""
        async with self._database.connection() as connection:
            row = await store.LINEAGE(connection, lineage_id)
            return None if row is None else await _whole(connection, row)

    async def facts(self, lineage_id: UUID, rules: EngineRules, members: Sequence[Member] = ()) -> LineageFacts | None:
        """What `explain_lineage` decides over; `members` are the endpoints to ask, each for itself."""
        async with self._database.connection() as connection:
            row = await store.LINEAGE(connection, lineage_id)
            lane = None if row is None else await store.LANE_OF_LINEAGE(connection, lineage_id)
            if row is None or lane is None:
                return None
            whole = await _whole(connection, row)
            halts = await store.HALTS_IN_FORCE(connection, whole.chain_id, whole.environment, whole.role)
        return LineageFacts(
            whole=whole,
            lane=value_from(LaneFacts, lane),
            halts=tuple(value_from(HaltRecord, halt) for halt in halts),
            rules=rules,
            now=row["now"],
            nodes=await look(whole, members),
        )

    async def doubtful(self, *, role: str | None = None, lines_max: int) -> list[DoubtfulLine]:
        """What is neither surely sent nor surely not, and what is held; the longest open first."""
        async with self._database.connection() as connection:
            rows = await store.DOUBTFUL(connection, self._chain_id, self._environment, role, lines_max)
        return [value_from(DoubtfulLine, row, signer=Address(row["signer"])) for row in rows]

    async def lanes(self, *, role: str | None = None) -> list[LaneLine]:
        """Every lane of the environment, or of one role."""
        async with self._database.connection() as connection:
            rows = await store.LANES_OF_ENVIRONMENT(connection, self._chain_id, self._environment, role)
        return [value_from(LaneLine, row, signer=Address(row["signer"])) for row in rows]


async def pool_look(database: Database, chain_id: int, environment: str, role: str) -> PoolLook:
    """One pool as its gauges show it."""
    async with database.connection() as connection:
        lanes = await store.LANES_OF_ENVIRONMENT(connection, chain_id, environment, role)
        counts = await store.OPEN_BY_STATE_AND_HOLD(connection, chain_id, environment, role)
    return PoolLook(
        lanes=tuple(value_from(LaneLine, row, signer=Address(row["signer"])) for row in lanes),
        lineages={(row["state"], row["hold"]): row["lineages"] for row in counts},
    )


async def look(whole: LineageWhole, members: Sequence[Member]) -> tuple[NodeSight, ...]:
    """What each endpoint says of the lineage now, all asked at once; one that fails is shown as failing."""
    sights: dict[int, NodeSight] = {}

    async def ask(place: int, member: Member) -> None:
        sights[place] = await _look_at(whole, member)

    async with trio.open_nursery() as endpoints:
        for place, member in enumerate(members):
            endpoints.start_soon(ask, place, member)
    return tuple(sights[place] for place in range(len(members)))


async def _look_at(whole: LineageWhole, member: Member) -> NodeSight:
    hashes = [one.tx_hash for one in whole.members]
    questions: list[Call[object]] = [
        methods.block_by_number("latest"),
        methods.transaction_count(whole.signer.value, "latest"),
        methods.transaction_count(whole.signer.value, "pending"),
        *[methods.transaction_by_hash(one) for one in hashes],
        *[methods.transaction_receipt(one) for one in hashes],
    ]
    try:
        head, latest, pending, *rest = await member.ask_many(questions)
    except RpcError as error:
        return NodeSight(member.shown, problem=str(error))
    errors = [answer for answer in (head, latest, pending, *rest) if isinstance(answer, RpcError)]
    if len(errors) == len(questions):
        return NodeSight(member.shown, problem=str(errors[0]))
    header = head if isinstance(head, Header) else None
    return NodeSight(
        endpoint=member.shown,
        head_block_number=None if header is None else header.number,
        base_fee_per_gas_wei=None if header is None else header.base_fee_per_gas_wei,
        latest_nonce=latest if isinstance(latest, int) else None,
        pending_nonce=pending if isinstance(pending, int) else None,
        members=tuple(
            _seen(tx_hash, found, receipt)
            for tx_hash, found, receipt in zip(hashes, rest[: len(hashes)], rest[len(hashes) :], strict=True)
        ),
    )


def _seen(tx_hash: bytes, found: object, receipt: object) -> MemberSeen:
    problem = next((str(answer) for answer in (found, receipt) if isinstance(answer, RpcError)), None)
    mined = receipt if isinstance(receipt, Receipt) else None
    return MemberSeen(
        tx_hash=tx_hash,
        is_known=isinstance(found, Transaction) or mined is not None,
        block_number=None if mined is None else mined.block_number,
        block_hash=None if mined is None else mined.block_hash,
        succeeded=None if mined is None else mined.succeeded,
        problem=problem,
    )


async def _whole(connection: Connection, row: Row) -> LineageWhole:
    lineage_id = row["lineage_id"]
    members = await store.MEMBERS_OF_LINEAGES(connection, [lineage_id])
    broadcasts = await store.BROADCASTS_OF_LINEAGE(connection, lineage_id, BROADCASTS_MAX)
    receipts = await store.RECEIPTS_OF_LINEAGE(connection, lineage_id)
    events = await store.EVENTS_OF_LINEAGE(connection, lineage_id)
    findings = await store.FINDINGS_OF_LINEAGE(connection, lineage_id, FINDINGS_MAX)
    return value_from(
        LineageWhole,
        row,
        signer=Address(row["signer"]),
        to_address=Address(row["to_address"]),
        members=tuple(value_from(MemberRecord, one) for one in members),
        broadcasts=tuple(value_from(BroadcastRecord, one) for one in broadcasts),
        receipts=tuple(value_from(ReceiptRecord, one) for one in receipts),
        events=tuple(value_from(EventRecord, one) for one in events),
        findings=tuple(value_from(FindingRecord, one) for one in findings),
    )
