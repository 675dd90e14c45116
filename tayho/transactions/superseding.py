"""Superseded lineages: a transaction that is none of ours used the nonce up, and is final (TX-3, TX-4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog
import trio
from attrs import frozen

from rpc import methods
from rpc.asked_together import Asked
from rpc.truth import ChainTruth
from rpc.values import Header
from storage.database import Database
from tayho.contracts.coordination import Coordination, Settlement
from tayho.kernel.address import Address
from tayho.kernel.json_document import Json
from tayho.kernel.steps import step
from tayho.transactions import store
from tayho.transactions.errors import LineageDrifted, PoolHalted
from tayho.transactions.halts import held_unhalted
from tayho.transactions.nonce_users import NonceUsers
from tayho.transactions.superseding_rules import Looks
from tayho.transactions.types import Foreign, Ours, TransactionSettings, Unidentified, UsedUp

log = structlog.get_logger("tayho.superseding")

LINEAGES_MAX = 200
LOOKS_BEFORE_UNIDENTIFIED = 3
_RECEIPTS_UNREAD = "the nonce is used up, and it is not agreed that no member has a receipt"
_RECEIPT_LAGS = "one of the lineage's own transactions is in a block, and the nodes do not show its receipt yet"


@frozen
class Verdict:
    """A lineage that is superseded: by what, or without knowing by what."""

    lineage: UsedUp
    user: Foreign | None
    # Where the nonce was seen used: the foreign transaction's own block, or the one that was looked at.
    block_number: int
    block_hash: bytes
    reason: str


class Superseding:
    """Ends, at each tick, what can never be mined any more, on the word of a majority and on nothing less."""

    def __init__(
        self, database: Database, coordination: Coordination, truth: ChainTruth, settings: TransactionSettings
    ) -> None:
        self._database = database
        self._coordination = coordination
        self._truth = truth
        self._settings = settings
        self._pool = (settings.chain_id, settings.environment, settings.role)
        self._users_of = NonceUsers(truth, settings.reorg_lookback_blocks)
        self._looks = Looks(settings.reconcile_seconds)

    async def step(self, head: Header) -> None:
        """Decide about every open lineage whose nonce is used up for good. Raises RpcError, StorageError."""
        final = await self._final_header(head)
        if final is None:
            return
        used_up = await self._used_up(final)
        users, reasons = await self._users(used_up, head, final) if used_up else ({}, {})
        verdicts, undecided = self._decide(users, final)
        self._looks.keep([lineage.lineage_id for lineage in users])
        await self._hold(undecided | reasons)
        if len(used_up) < LINEAGES_MAX:
            await self._release([*undecided, *reasons, *(verdict.lineage for verdict in verdicts)])
        if verdicts:
            await self._supersede(verdicts)

    async def _final_header(self, head: Header) -> Header | None:
        height = head.number - self._settings.confirmations
        found = (await self._truth.heads.headers_at([height]))[height] if height > 0 else None
        return found if isinstance(found, Header) else None

    async def _used_up(self, final: Header) -> list[UsedUp]:
        """Open lineages below their account's count after a block deep enough: one question a signer."""
        async with self._database.connection() as connection:
            signers = [row["signer"] for row in await store.SIGNERS_IN_FLIGHT(connection, *self._pool)]
        if not signers:
            return []
        counts = Asked({signer: methods.transaction_count(signer, final.hash) for signer in signers})
        await self._truth.ask(counts)
        async with self._database.connection() as connection:
            rows = await store.WITH_USED_NONCES(
                connection, *self._pool, list(counts.agreed), list(counts.agreed.values()), LINEAGES_MAX
            )
        return [
            UsedUp(row["lineage_id"], row["job_id"], Address(row["signer"]), row["nonce"], tuple(row["tx_hashes"]))
            for row in rows
        ]

    async def _users(
        self, used_up: Sequence[UsedUp], head: Header, final: Header
    ) -> tuple[dict[UsedUp, Foreign | Ours | Unidentified], dict[UsedUp, str]]:
        """What used each nonce, of those that certainly have no receipt; and why nothing is certain of others."""
        receipts = Asked({one: methods.transaction_receipt(one) for lineage in used_up for one in lineage.tx_hashes})
        await self._truth.ask(receipts)
        # A member with a receipt decides its lineage by itself, as soon as it is deep enough.
        without = [
            lineage for lineage in used_up if not any(receipts.agreed.get(one) is not None for one in lineage.tx_hashes)
        ]
        certain = [lineage for lineage in without if all(one in receipts.agreed for one in lineage.tx_hashes)]
        unread = {lineage: _RECEIPTS_UNREAD for lineage in without if lineage not in certain}
        return await self._users_of.identified(certain, head, final), unread

    def _decide(
        self, users: Mapping[UsedUp, Foreign | Ours | Unidentified], final: Header
    ) -> tuple[list[Verdict], dict[UsedUp, str]]:
        verdicts: list[Verdict] = []
        undecided: dict[UsedUp, str] = {}
        for lineage, user in users.items():
            match user:
                case Foreign():
                    reason = f"0x{user.tx_hash.hex()} in block {user.block_number} used the nonce"
                    verdicts.append(Verdict(lineage, user, user.block_number, user.block_hash, reason))
                case Ours():
                    undecided[lineage] = _RECEIPT_LAGS
                case Unidentified(reason=reason):
                    if self._looks.count(lineage.lineage_id, trio.current_time()) < LOOKS_BEFORE_UNIDENTIFIED:
                        undecided[lineage] = f"the nonce is used up, not yet identified by what: {reason}"
                    else:
                        # Nodes forget: it may be ours after all, so an operator looks before the job is replayed.
                        told = f"not identified; look before a replay whether it was ours: {reason}"
                        verdicts.append(Verdict(lineage, None, final.number, final.hash, told))
        return verdicts, undecided

    async def _hold(self, undecided: Mapping[UsedUp, str]) -> None:
        if not undecided:
            return
        async with self._database.connection() as connection:
            held = await store.HOLD_FOR_USED_NONCE(
                connection, [lineage.lineage_id for lineage in undecided], list(undecided.values())
            )
        step("supersede.after_hold")
        if held:
            log.warning("nonces_used", lineages=len(held), first=next(iter(undecided.values())))

    async def _release(self, in_doubt: Sequence[UsedUp]) -> None:
        async with self._database.connection() as connection:
            released = await store.RELEASE_USED_NONCES(
                connection, *self._pool, [lineage.lineage_id for lineage in in_doubt]
            )
        step("supersede.after_release")
        if released:
            log.info("nonces_free_again", lineages=len(released))

    async def _supersede(self, verdicts: Sequence[Verdict]) -> None:
        """End lineages and jobs together. Jobs are locked first, in the order that every other path locks."""
        async with self._database.transaction() as tx:
            settled = await self._coordination.settle(
                tx,
                [
                    Settlement(verdict.lineage.job_id, "dead", _detail(verdict))
                    for verdict in verdicts
                    if verdict.lineage.job_id is not None
                ],
            )
            due = [one for one in verdicts if one.lineage.job_id is None or one.lineage.job_id in settled]
            if not await held_unhalted(tx, self._settings):
                raise PoolHalted
            rows = await store.SUPERSEDE(
                tx,
                [verdict.lineage.lineage_id for verdict in due],
                [None if verdict.user is None else verdict.user.tx_hash for verdict in due],
                [verdict.block_number for verdict in due],
                [verdict.block_hash for verdict in due],
                [verdict.reason for verdict in due],
                self._settings.instance_id,
            )
            ended = {row["lineage_id"] for row in rows}
            drifted = [one for one in due if one.lineage.job_id is not None and one.lineage.lineage_id not in ended]
            if drifted:
                raise LineageDrifted(f"{len(drifted)} lineages ended under us")
        step("supersede.after_decide")
        for one in due:
            log.error(
                "superseded",
                lineage_id=str(one.lineage.lineage_id),
                job_id=str(one.lineage.job_id),
                signer=str(one.lineage.signer),
                nonce=one.lineage.nonce,
                reason=one.reason,
            )


def _detail(verdict: Verdict) -> dict[str, Json]:
    user = verdict.user
    return {
        "type": "Superseded",
        "message": f"a transaction that is none of ours used the nonce up: {verdict.reason}",
        "signer": str(verdict.lineage.signer),
        "nonce": verdict.lineage.nonce,
        "foreign_tx_hash": None if user is None else f"0x{user.tx_hash.hex()}",
        "block_number": verdict.block_number,
        "block_hash": f"0x{verdict.block_hash.hex()}",
    }
