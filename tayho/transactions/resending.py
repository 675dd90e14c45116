"""Bytes that were signed before, sent once more: taken from the journal, and what was said written down (TX-4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import structlog

from rpc.truth import Sight
from storage.database import Connection, Database
from tayho.contracts.custody import Custody
from tayho.transactions import store
from tayho.transactions.answers import Applied, apply_answers, note_answers, tell
from tayho.transactions.observing import observe_no_seconds, observe_nothing
from tayho.transactions.reconcile_rules import OpenLineage
from tayho.transactions.resending_rules import ANSWERS_MAX, Surroundings, is_due, last_no, pays_again
from tayho.transactions.sending import Sending
from tayho.transactions.types import Answered, Observe, ObserveSeconds, Outgoing, TransactionSettings

log = structlog.get_logger("tayho.resending")


class Resending:
    """Says which bytes are due, opens them, sends them, and records the answers in whoever's transaction it is."""

    def __init__(
        self,
        database: Database,
        custody: Custody,
        sending: Sending,
        settings: TransactionSettings,
        observe: Observe = observe_nothing,
        observe_seconds: ObserveSeconds = observe_no_seconds,
    ) -> None:
        self._database = database
        self._custody = custody
        self._sending = sending
        self._settings = settings
        self._observe = observe
        self._observe_seconds = observe_seconds
        # At this process's last look; None before the first.
        self._base_fee_wei: int | None = None

    async def due(self, wanted: Mapping[bytes, OpenLineage], sight: Sight) -> list[bytes]:
        """Of the transactions that no node shows, those that go out now: a refusal that repeats is asked for less
        often. Ask at every look, with none too: what the market did since the last one counts."""
        before_wei, self._base_fee_wei = self._base_fee_wei, sight.head.base_fee_per_gas_wei
        if not wanted:
            return []
        async with self._database.connection() as connection:
            rows = await store.LAST_SAID(connection, list(wanted), ANSWERS_MAX)
        waiting: set[bytes] = set()
        for row in rows:
            lineage = wanted[row["tx_hash"]]
            around = Surroundings(
                is_next=sight.pending_nonces.get(lineage.signer.value) == lineage.nonce,
                pays_again=pays_again(lineage.active.fee.max_fee_per_gas_wei, before_wei, self._base_fee_wei),
                is_funded=row["is_funded"],
            )
            tick_seconds = float(self._settings.reconcile_seconds)
            if not is_due(last_no(row["reasons"]), row["seconds_ago"], around, tick_seconds):
                waiting.add(row["tx_hash"])
        return [tx_hash for tx_hash in wanted if tx_hash not in waiting]

    async def opened(self, hashes: Sequence[bytes]) -> list[Outgoing]:
        """The bytes of these transactions, lowest nonce first. One whose seal is broken is told and left out."""
        if not hashes:
            return []
        async with self._database.connection() as connection:
            rows = await store.SEALED_MEMBERS(connection, hashes)
        sealed = [store.sealed_of(row) for row in rows]
        outgoing: list[Outgoing] = []
        for (_, binding), raw in zip(sealed, await self._custody.unseal_many(sealed), strict=True):
            if isinstance(raw, Exception):
                log.error("seal_broken", tx_hash=f"0x{binding.tx_hash.hex()}", error=str(raw))
            else:
                outgoing.append(Outgoing(binding.tx_hash, binding.signer, binding.nonce, raw))
        return outgoing

    async def send(self, outgoing: Sequence[Outgoing]) -> list[Answered]:
        """What was said to each. Nothing is recorded yet."""
        answers = await self._sending.send_many(outgoing)
        endpoint = self._sending.endpoint
        return [Answered(one.tx_hash, endpoint, answer) for one, answer in zip(outgoing, answers, strict=True)]

    async def record(self, tx: Connection, answered: Sequence[Answered]) -> Applied:
        """Write it down and move lanes and lineages by it, in `tx`. Of two words about a lineage the last holds."""
        sent_by = self._settings.instance_id
        applied = await apply_answers(tx, answered, sent_by)
        await note_answers(tx, answered, sent_by)
        return applied

    def tell(self, applied: Applied, answered: Sequence[Answered]) -> None:
        """Tell whoever counts, after the commit."""
        tell(applied, answered, self._observe, self._observe_seconds)
