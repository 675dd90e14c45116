"""The two ways out of a wrong world, each an operator's act: adopt the chain as it is, or begin anew on it (TX-14)."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from attrs import frozen

from rpc.truth import ChainTruth
from rpc.values import Header
from storage.commits import again_if_lost
from storage.database import Connection, Database
from tayho.contracts.coordination import Coordination, Settlement
from tayho.kernel.address import Address
from tayho.kernel.steps import step
from tayho.transactions import store
from tayho.transactions.errors import LineageDrifted, NothingHalted, WorldUnseen, WrongRemedy
from tayho.transactions.halts import Halts, resolve_halts
from tayho.transactions.lane_watch import advance_fences, record_findings
from tayho.transactions.lanes import lanes_of_pool
from tayho.transactions.types import ActDone, Finding, FindingKind, Halt, Resolution, TransactionSettings

RESTARTED = "the chain began anew"
_OPEN = ["allocated", "signed", "broadcast"]


@frozen
class _Now:
    """The halts that are open, and the chain as it is now, agreed."""

    halts: tuple[Halt, ...]
    anchor: Header
    nonces: dict[Address, int]


class WorldActs:
    """What an operator may do to the pool of one (chain, environment, role). `actor` is who, for the record.

    Each raises NothingHalted, WorldUnseen (no majority shows the chain whole), RpcError, StorageError; CommitUnknown
    where the answer was lost: asking again is right.
    """

    def __init__(
        self, database: Database, coordination: Coordination, truth: ChainTruth, settings: TransactionSettings
    ) -> None:
        self._database = database
        self._coordination = coordination
        self._truth = truth
        self._settings = settings
        self._halts = Halts(database, settings)

    async def adopt(self, actor: str) -> ActDone:
        """The chain is right: fences go up to it, and what others used is noted. Nothing signed is given up: what is
        open is decided by receipts, as always."""
        now = await self._look()

        async def once() -> ActDone:
            async with self._database.transaction() as tx:
                resolved = await self._resolve(tx, now, "adopted", actor)
                before = await self._locked_fences(tx)
                ahead = {signer: nonce for signer, nonce in now.nonces.items() if nonce > before.get(signer, nonce)}
                await advance_fences(tx, self._settings, ahead)
                fences = before | ahead
                await self._note(tx, now, "world_adopted", actor, fences)
            step("world.after_adopt")
            foreign = sum(nonce - before[signer] for signer, nonce in ahead.items())
            return ActDone(resolved, _shown(fences), foreign_nonces=foreign)

        return await again_if_lost(once)

    async def restart(self, actor: str) -> ActDone:
        """The chain began anew: what is open can never be mined there. Jobs of signed bytes end dead, the others try
        again; every lane begins a new world at the nonce that the new chain has.

        Raises WrongRemedy where the chain still has the block by which we know it: it did not begin anew.
        """
        now = await self._look()
        await self._require_gone()

        async def once() -> ActDone:
            async with self._database.transaction() as tx:
                ended = await self._end_open(tx)
                resolved = await self._resolve(tx, now, "restarted", actor)
                fences = await self._locked_fences(tx) | now.nonces
                await store.BEGIN_WORLDS(
                    tx, self._settings.chain_id, [signer.value for signer in fences], list(fences.values())
                )
                await self._supersede(tx, ended)
                await self._note(tx, now, "world_restarted", actor, fences)
            step("world.after_restart")
            return ActDone(resolved, _shown(fences), superseded=len(ended))

        return await again_if_lost(once)

    async def _look(self) -> _Now:
        """The halts and, without holding any lock, the chain."""
        settings = self._settings
        halts = await self._halts.open()
        if not halts:
            raise NothingHalted(settings.role, settings.environment)
        head = await self._truth.heads.head()
        anchor = await self._truth.heads.header_at(max(head.number - settings.reorg_lookback_blocks, 0))
        lanes = await lanes_of_pool(self._database, settings)
        sight = await self._truth.accounts([lane.signer.value for lane in lanes], head, depth=0)
        if anchor is None or len(sight.nonces) != len(lanes):
            raise WorldUnseen("; ".join(str(failure) for failure in sight.failures))
        return _Now(tuple(halts), anchor, {Address(signer): nonce for signer, nonce in sight.nonces.items()})

    async def _require_gone(self) -> None:
        settings = self._settings
        async with self._database.connection() as connection:
            row = await store.ANCHOR(connection, settings.chain_id, settings.environment, settings.role)
        if row is None:
            return
        number = row["anchor_block_number"]
        found = await self._truth.hashes_now([number])
        if found.get(number) == row["anchor_block_hash"]:
            raise WrongRemedy(number, row["anchor_block_hash"])

    async def _resolve(self, tx: Connection, now: _Now, resolution: Resolution, actor: str) -> tuple[UUID, ...]:
        """End the halts that were looked at. One raised meanwhile stays: nobody has judged it."""
        ids = [halt.halt_id for halt in now.halts]
        resolved = await resolve_halts(tx, self._settings, ids, resolution, actor)
        if not resolved:
            raise NothingHalted(self._settings.role, self._settings.environment)
        return tuple(sorted(resolved))

    async def _locked_fences(self, tx: Connection) -> dict[Address, int]:
        settings = self._settings
        rows = await store.LOCK_LANES(tx, settings.chain_id, settings.environment, settings.role)
        return {Address(row["signer"]): row["next_nonce"] for row in rows}

    async def _end_open(self, tx: Connection) -> list[UUID]:
        """Jobs first, as everywhere: of signed bytes they end, of reserved nonces they go on. Fillers have none."""
        settings = self._settings
        rows = await store.OPEN_LINEAGES_OF_POOL(tx, settings.chain_id, settings.environment, settings.role)
        owned: list[tuple[UUID, bool]] = [
            (row["job_id"], row["is_signed"]) for row in rows if row["job_id"] is not None
        ]
        signed = sorted(job_id for job_id, is_signed in owned if is_signed)
        unsigned = sorted(job_id for job_id, is_signed in owned if not is_signed)
        detail = {"type": "WorldRestarted", "message": f"{RESTARTED} before the transaction was final"}
        owners = await self._coordination.settle(tx, [Settlement(job_id, "dead", detail) for job_id in signed])
        owners |= await self._coordination.release_lineages(tx, unsigned, RESTARTED)
        if len(owners) != len(owned):
            raise LineageDrifted("a job ended while its world was ended")
        return [row["lineage_id"] for row in rows]

    async def _supersede(self, tx: Connection, lineage_ids: Sequence[UUID]) -> None:
        rows = await store.SUPERSEDE_OPEN(tx, lineage_ids, RESTARTED, _OPEN)
        if len(rows) != len(lineage_ids):
            raise LineageDrifted("a lineage ended while its world was ended")

    async def _note(self, tx: Connection, now: _Now, kind: FindingKind, actor: str, fences: dict[Address, int]) -> None:
        """Know the chain by its present anchor, and write down who said so, with what was known."""
        settings = self._settings
        await store.SET_ANCHOR(
            tx, settings.chain_id, settings.environment, settings.role, now.anchor.number, now.anchor.hash
        )
        halts = [str(halt.halt_id) for halt in now.halts]
        said = [
            (signer, Finding(kind, {"actor": actor, "fence": fence, "halts": [*halts]}))
            for signer, fence in fences.items()
        ]
        await record_findings(tx, settings, said)


def _shown(fences: dict[Address, int]) -> dict[str, int]:
    return {str(signer): fence for signer, fence in sorted(fences.items())}
