"""The invariants I1 to I6, I9 and I10 (spec, overview), asked of the database and of the chain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any, cast
from uuid import UUID

from attrs import frozen

from rpc import methods
from rpc.errors import RpcError
from rpc.reads import Call, Reads
from rpc.values import Receipt
from storage.database import Connection, Database
from tayho.kernel.address import Address
from tayho.protocol import abi, artifacts
from tayho.protocol.counter import event_id, read_recorded

TERMINAL = ("completed", "not_actionable", "quarantined", "dead")


@frozen
class Foreign:
    """What others sent with a key of ours: (signer, nonce) by transaction hash."""

    sent: Mapping[bytes, tuple[bytes, int]]

    @property
    def nonces(self) -> frozenset[tuple[bytes, int]]:
        return frozenset(self.sent.values())


NOBODY = Foreign({})


async def check_invariants(
    database: Database, node: Reads, contract: Address, *, foreign: Collection[bytes] = ()
) -> None:
    """Fail with the rows that break one of I1 to I6, I9 or I10, or with the chain's own evidence.

    For chains that lose no block: where a reorganisation was not noticed yet, only `check_always` holds. `foreign` are
    the hashes of what the test itself sent from one of our signers.
    """
    await check_always(database, node, contract, Foreign(dict.fromkeys(foreign, (b"", -1))))
    await check_evidence(database, node, contract, confirmations=0)


async def check_always(
    database: Database, node: Reads, contract: Address, foreign: Foreign = NOBODY, *, first_block: int = 0
) -> None:
    """Fail with what breaks I1 to I6 or I10 at this moment, whatever is under way. Ours is from `first_block` on."""
    # The chain first: what it shows must be in the journal already.
    shown = await _own_transactions(node, first_block)
    async with database.connection() as connection:
        await _check_nonces(connection)
        await _check_lineages(connection)
        await _check_attempts(connection)
        await _check_children(connection)
        await _check_journal_knows(connection, shown, foreign)
        await _check_single_effects(connection, node, contract)


async def check_evidence(database: Database, node: Reads, contract: Address, *, confirmations: int) -> None:
    """Fail with what breaks I9: ends without a canonical receipt so deep, and mined members without an end."""
    async with database.connection() as connection:
        await _check_completed_took_effect(connection, node, contract)
        await _check_ends_are_canonical(connection, node, confirmations)
        await _check_ends_are_on_chain(connection, node)


async def check_at_rest(database: Database, node: Reads, contract: Address, *, confirmations: int) -> None:
    """Fail with what breaks I5 or I9 where nothing is under way: nothing mined is open, and no lane has a gap."""
    await check_evidence(database, node, contract, confirmations=confirmations)
    async with database.connection() as connection:
        await _check_mined_have_ended(connection, node)
        await _check_lanes_are_even(connection, node)


async def events_of(node: Reads, contract: Address) -> Counter[bytes]:
    """How often each event id was recorded."""
    head = await node.ask(methods.block_number())
    topic = abi.event_topic(artifacts.load("Counter"), "Recorded")
    logs = await node.ask(methods.logs((0, head), addresses=[contract.value], topics=[[topic]]))
    return Counter(read_recorded(log.topics, log.data).event_id for log in logs)


async def effects_of(node: Reads, contract: Address, job_ids: Collection[UUID]) -> dict[UUID, int]:
    """How often each job took effect."""
    events = await events_of(node, contract)
    return {job_id: events[event_id(job_id)] for job_id in job_ids}


async def _check_nonces(connection: Connection) -> None:
    """I1 and I5: every nonce from a lane's first to its fence, in its present world, belongs to exactly one lineage
    that is not abandoned, or is noted as used by somebody else."""
    rows = await connection.fetch(
        """
        SELECT lanes.signer, taken.nonce, count(lineages.lineage_id) AS lineages, count(foreigners.nonce) AS foreign
        FROM transactions.lanes AS lanes
        CROSS JOIN LATERAL generate_series(lanes.first_nonce, lanes.next_nonce - 1) AS taken (nonce)
        LEFT JOIN transactions.lineages AS lineages
            ON lineages.chain_id = lanes.chain_id AND lineages.signer = lanes.signer AND lineages.nonce = taken.nonce
            AND lineages.world = lanes.world AND lineages.state <> 'abandoned'
        LEFT JOIN transactions.foreign_nonces AS foreigners
            ON foreigners.chain_id = lanes.chain_id AND foreigners.signer = lanes.signer
            AND foreigners.world = lanes.world AND foreigners.nonce = taken.nonce
        GROUP BY lanes.signer, taken.nonce
        HAVING count(lineages.lineage_id) + count(foreigners.nonce) <> 1
        """
    )
    assert not rows, f"I1/I5: nonces without exactly one lineage: {[dict(row) for row in rows]}"
    beyond = await connection.fetch(
        """
        SELECT lineages.lineage_id, lineages.nonce, lanes.next_nonce FROM transactions.lineages AS lineages
        JOIN transactions.lanes AS lanes USING (chain_id, signer, world)
        WHERE lineages.state <> 'abandoned' AND lineages.nonce >= lanes.next_nonce
        """
    )
    assert not beyond, f"I5: lineages at or above their lane's fence: {[dict(row) for row in beyond]}"


async def _check_lineages(connection: Connection) -> None:
    """I2 and I3: one live lineage a job, one call in a lineage, one mined member."""
    rows = await connection.fetch(
        """
        SELECT job_id FROM transactions.lineages
        WHERE job_id IS NOT NULL AND state NOT IN ('abandoned', 'superseded', 'reverted', 'cancelled')
            AND (disowned_at IS NULL OR state = 'mined')
        GROUP BY job_id HAVING count(*) > 1
        """
    )
    assert not rows, f"I2: jobs with two live lineages: {[row['job_id'] for row in rows]}"
    rows = await connection.fetch(
        """
        SELECT lineages.lineage_id FROM transactions.lineages AS lineages
        JOIN transactions.members AS members USING (lineage_id)
        GROUP BY lineages.lineage_id, lineages.call_hash
        HAVING count(*) FILTER (WHERE members.call_hash <> lineages.call_hash) > 0
            OR count(*) FILTER (WHERE members.state IN ('mined', 'reverted')) > 1
        """
    )
    assert not rows, f"I2/I3: lineages with a foreign call or two mined members: {[dict(row) for row in rows]}"


async def _check_attempts(connection: Connection) -> None:
    """I6: at most the current attempt runs, and no ended job has one."""
    rows = await connection.fetch(
        """
        SELECT jobs.job_id, jobs.state, jobs.attempt_number, attempts.attempt_number AS running
        FROM coordination.attempts AS attempts
        JOIN coordination.jobs AS jobs USING (job_id)
        WHERE attempts.state = 'running'
            AND (jobs.state <> 'processing' OR jobs.attempt_number <> attempts.attempt_number
                 OR jobs.attempt_token <> attempts.token)
        """
    )
    assert not rows, f"I6: running attempts that are not their job's current one: {[dict(row) for row in rows]}"
    rows = await connection.fetch(
        """
        SELECT outbox.job_id FROM coordination.outbox AS outbox JOIN coordination.jobs AS jobs USING (job_id)
        WHERE jobs.state = ANY ($1::text[])
        """,
        list(TERMINAL),
    )
    assert not rows, f"outbox rows of ended jobs: {[row['job_id'] for row in rows]}"


async def _check_children(connection: Connection) -> None:
    """I10: an intent waits in the line, or has one place, in the batch that its job is under; the place is settled
    exactly where the job ended by its own result."""
    rows = await connection.fetch(
        """
        SELECT intents.job_id, jobs.state, jobs.batch_job_id, intents.waits, array_agg(children.state) AS places
        FROM intents.intents AS intents
        JOIN coordination.jobs AS jobs USING (job_id)
        LEFT JOIN intents.children AS children ON children.job_id = intents.job_id AND children.state <> 'released'
        GROUP BY intents.job_id, jobs.job_id
        HAVING count(children.state) <> (jobs.batch_job_id IS NOT NULL)::int
            OR count(*) FILTER (WHERE children.batch_job_id IS DISTINCT FROM jobs.batch_job_id) > 0
            OR intents.waits <> (jobs.state = 'pending_batch')
            OR count(*) FILTER (WHERE children.state = 'settled') <> (
                jobs.state = 'completed' OR (jobs.state = 'dead' AND jobs.last_error ->> 'type' = 'IntentFailed')
            )::int
        """
    )
    assert not rows, f"I10: intents that are not in one place: {[dict(row) for row in rows]}"


async def _check_journal_knows(connection: Connection, shown: Collection[Shown], foreign: Foreign) -> None:
    """I4: every transaction that the node has of a signer, from its lane's first nonce on, is in the journal, unless
    the nonce is noted as used by somebody else, or its lineage was found superseded before anything was signed."""
    lanes = await connection.fetch("SELECT signer, first_nonce FROM transactions.lanes")
    first_nonces = {bytes(row["signer"]): row["first_nonce"] for row in lanes}
    journal = {bytes(row["tx_hash"]) for row in await connection.fetch("SELECT tx_hash FROM transactions.members")}
    rows = await connection.fetch(
        """
        SELECT foreigners.signer, foreigners.nonce FROM transactions.foreign_nonces AS foreigners
        JOIN transactions.lanes AS lanes USING (chain_id, signer, world)
        UNION ALL
        SELECT lineages.signer, lineages.nonce FROM transactions.lineages AS lineages
        JOIN transactions.lanes AS lanes USING (chain_id, signer, world)
        WHERE lineages.state = 'superseded'
            AND NOT EXISTS (SELECT FROM transactions.members AS members WHERE members.lineage_id = lineages.lineage_id)
        """
    )
    noted = {(bytes(row["signer"]), row["nonce"]) for row in rows}
    unknown = [
        (f"0x{one.tx_hash.hex()}", one.nonce)
        for one in shown
        if one.sender in first_nonces and one.nonce >= first_nonces[one.sender]
        if one.tx_hash not in journal and one.tx_hash not in foreign.sent and (one.sender, one.nonce) not in noted
    ]
    assert not unknown, f"I4: the node has transactions of ours that the journal has not: {unknown}"


async def _check_single_effects(connection: Connection, node: Reads, contract: Address) -> None:
    """I3 on the chain: no job was recorded twice."""
    rows = await connection.fetch(
        "SELECT job_id FROM coordination.jobs WHERE kind = 'counter.record' AND NOT request ? 'job'"
    )
    effects = await effects_of(node, contract, [row["job_id"] for row in rows])
    twice = [job_id for job_id, count in effects.items() if count > 1]
    assert not twice, f"I3: jobs with two effects: {twice}"


async def _check_completed_took_effect(connection: Connection, node: Reads, contract: Address) -> None:
    """I9 by the effects: what PostgreSQL calls completed was recorded."""
    rows = await connection.fetch(
        """
        SELECT job_id FROM coordination.jobs
        WHERE kind = 'counter.record' AND NOT request ? 'job' AND state = 'completed'
        """
    )
    effects = await effects_of(node, contract, [row["job_id"] for row in rows])
    without = [job_id for job_id, count in effects.items() if count != 1]
    assert not without, f"I9: completed jobs without their effect: {without}"


async def _check_ends_are_canonical(connection: Connection, node: Reads, confirmations: int) -> None:
    """I9 by the receipts: what ended a lineage is on the chain, in that very block, so deep."""
    rows = await connection.fetch(
        """
        SELECT lineages.lineage_id, lineages.state, members.tx_hash, members.is_cancellation,
            receipts.block_hash, receipts.succeeded
        FROM transactions.lineages AS lineages
        -- What ended in a chain that is gone, no chain can show.
        JOIN transactions.lanes AS lanes USING (chain_id, signer, world)
        LEFT JOIN transactions.members AS members
            ON members.lineage_id = lineages.lineage_id AND members.state IN ('mined', 'reverted')
        LEFT JOIN transactions.receipts AS receipts
            ON receipts.tx_hash = members.tx_hash AND receipts.orphaned_at IS NULL
        WHERE lineages.state IN ('mined', 'reverted', 'cancelled')
        """
    )
    unproven = [row["lineage_id"] for row in rows if row["block_hash"] is None]
    assert not unproven, f"I9: lineages that ended without a receipt: {unproven}"
    head = await node.ask(methods.block_number())
    answers = await node.ask_many([methods.transaction_receipt(bytes(row["tx_hash"])) for row in rows])
    for row, receipt in zip(rows, answers, strict=True):
        where = f"I9: lineage {row['lineage_id']}, {row['state']}: the chain has {receipt}"
        assert receipt is not None, where
        assert not isinstance(receipt, RpcError), where
        assert receipt.block_hash == bytes(row["block_hash"]), where
        assert receipt.succeeded == row["succeeded"], where
        assert head - receipt.block_number >= confirmations, where
        ends = ("cancelled",) if row["is_cancellation"] else ("mined",) if row["succeeded"] else ("reverted",)
        assert row["state"] in ends, where


async def _check_ends_are_on_chain(connection: Connection, node: Reads) -> None:
    """I9: a job that completed on chain has one canonical receipt, and the chain has the very same; so has a revert.

    Not between a reorganisation and the tick that finds it: ask when the chain stands still, and somebody has looked.
    """
    rows = await connection.fetch(
        """
        SELECT jobs.job_id, jobs.state AS job_state, receipts.tx_hash, receipts.block_hash, receipts.succeeded
        FROM coordination.jobs AS jobs
        JOIN transactions.lineages AS lineages ON lineages.job_id = jobs.job_id AND lineages.state = 'mined'
        -- What a chain had that began anew since is no part of this one (TX-14).
        JOIN transactions.lanes AS lanes
            ON lanes.chain_id = lineages.chain_id AND lanes.signer = lineages.signer AND lanes.world = lineages.world
        LEFT JOIN transactions.members AS members
            ON members.lineage_id = lineages.lineage_id AND members.state IN ('mined', 'reverted')
        LEFT JOIN transactions.receipts AS receipts
            ON receipts.tx_hash = members.tx_hash AND receipts.orphaned_at IS NULL
        WHERE lineages.disowned_at IS NULL
        UNION ALL
        SELECT jobs.job_id, jobs.state, NULL, NULL, NULL
        FROM coordination.jobs AS jobs
        WHERE jobs.state = 'completed'
            AND EXISTS (SELECT FROM transactions.lineages AS lineages WHERE lineages.job_id = jobs.job_id)
            AND NOT EXISTS (
                SELECT FROM transactions.lineages AS lineages
                WHERE lineages.job_id = jobs.job_id AND lineages.state = 'mined'
            )
        """
    )
    unfounded = [row["job_id"] for row in rows if row["tx_hash"] is None or not row["succeeded"]]
    assert not unfounded, f"I9: jobs that completed on chain without a canonical receipt: {unfounded}"
    open_ones = [row["job_id"] for row in rows if row["job_state"] != "completed"]
    assert not open_ones, f"I9: jobs whose lineage is mined, and which have not completed: {open_ones}"
    answers = await node.ask_many([methods.transaction_receipt(row["tx_hash"]) for row in rows])
    for row, answer in zip(rows, answers, strict=True):
        assert isinstance(answer, Receipt), f"I9: the chain has no receipt of job {row['job_id']}: {answer}"
        assert (answer.block_hash, answer.status) == (row["block_hash"], 1), f"I9: the chain has another: {answer}"


async def _check_mined_have_ended(connection: Connection, node: Reads) -> None:
    """I3 and I9, from the chain: whichever member is mined is the one that its lineage ended by."""
    rows = await connection.fetch(
        """
        SELECT members.tx_hash, members.state AS member_state, lineages.state, lineages.lineage_id
        FROM transactions.members AS members JOIN transactions.lineages AS lineages USING (lineage_id)
        """
    )
    answers = await node.ask_many([methods.transaction_receipt(bytes(row["tx_hash"])) for row in rows])
    for row, receipt in zip(rows, answers, strict=True):
        is_mined = receipt is not None and not isinstance(receipt, RpcError)
        assert is_mined == (row["member_state"] in ("mined", "reverted")), (
            f"I9: member 0x{bytes(row['tx_hash']).hex()} is {row['member_state']} of lineage {row['lineage_id']}, "
            f"{row['state']}; the chain has {receipt}"
        )


async def _check_lanes_are_even(connection: Connection, node: Reads) -> None:
    """I5 from the chain: it has used up every nonce below the fence, and none above."""
    rows = await connection.fetch("SELECT signer, chain_id, next_nonce FROM transactions.lanes")
    for row in rows:
        used = await node.ask(methods.transaction_count(bytes(row["signer"]), "latest"))
        assert used == row["next_nonce"], f"I5: the chain has used {used} nonces of {dict(row)}"


@frozen
class Shown:
    """A transaction that the node has, mined or not."""

    tx_hash: bytes
    sender: bytes
    nonce: int


async def _own_transactions(node: Reads, first_block: int) -> list[Shown]:
    """All that is mined, and all that is in the node's pool."""
    # The pool first: what leaves it meanwhile is in a block.
    shown = list(await node.ask(_POOL))
    head = await node.ask(methods.block_number())
    blocks = await node.ask_many([_transactions_of_block(number) for number in range(first_block, head + 1)])
    for block in blocks:
        assert not isinstance(block, Exception), block
        shown += block
    return shown


def _shown(transaction: Any) -> Shown:
    return Shown(
        bytes.fromhex(transaction["hash"][2:]), bytes.fromhex(transaction["from"][2:]), int(transaction["nonce"], 16)
    )


def _transactions_of_pool(answer: object) -> list[Shown]:
    pool = cast("dict[str, dict[str, dict[str, Any]]]", answer)
    return [_shown(one) for part in pool.values() for by_nonce in part.values() for one in by_nonce.values()]


_POOL = Call("txpool_content", (), _transactions_of_pool)


def _transactions_of_block(number: int) -> Call[list[Shown]]:
    def parse(answer: object) -> list[Shown]:
        # A reorganisation may have taken the block meanwhile.
        block = cast("dict[str, Any] | None", answer)
        return [] if block is None else [_shown(one) for one in block["transactions"]]

    return Call("eth_getBlockByNumber", (hex(number), True), parse)
