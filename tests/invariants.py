"""The invariants I1 to I6 and I9 (spec, overview), asked of the database and of the chain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any, cast
from uuid import UUID

from rpc import methods
from rpc.reads import Call, Reads
from rpc.values import Receipt
from storage.database import Connection, Database
from tayho.kernel.address import Address
from tayho.protocol import abi, artifacts
from tayho.protocol.counter import event_id, read_recorded

TERMINAL = ("completed", "not_actionable", "quarantined", "dead")


async def check_invariants(
    database: Database, node: Reads, contract: Address, *, foreign: Collection[bytes] = ()
) -> None:
    """Fail with the rows that break one of I1 to I6 or I9, or with the chain's own evidence.

    `foreign` are the transactions that the test itself sent from one of our signers.
    """
    async with database.connection() as connection:
        await _check_nonces(connection)
        await _check_lineages(connection)
        await _check_attempts(connection)
        await _check_journal_knows_the_chain(connection, node, foreign)
        await _check_single_effects(connection, node, contract)
        await _check_ends_are_on_chain(connection, node)


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
    """I1 and I5: every nonce from a lane's first to its fence belongs to exactly one lineage that is not abandoned."""
    rows = await connection.fetch(
        """
        SELECT lanes.signer, taken.nonce, count(lineages.lineage_id) AS lineages
        FROM transactions.lanes AS lanes
        CROSS JOIN LATERAL generate_series(lanes.first_nonce, lanes.next_nonce - 1) AS taken (nonce)
        LEFT JOIN transactions.lineages AS lineages
            ON lineages.chain_id = lanes.chain_id AND lineages.signer = lanes.signer AND lineages.nonce = taken.nonce
            AND lineages.state <> 'abandoned'
        GROUP BY lanes.signer, taken.nonce
        HAVING count(lineages.lineage_id) <> 1
        """
    )
    assert not rows, f"I1/I5: nonces without exactly one lineage: {[dict(row) for row in rows]}"
    beyond = await connection.fetch(
        """
        SELECT lineages.lineage_id, lineages.nonce, lanes.next_nonce FROM transactions.lineages AS lineages
        JOIN transactions.lanes AS lanes USING (chain_id, signer)
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


async def _check_journal_knows_the_chain(connection: Connection, node: Reads, foreign: Collection[bytes]) -> None:
    """I4: every transaction that the chain has of a signer, from its lane's first nonce on, is in the journal."""
    lanes = await connection.fetch("SELECT signer, first_nonce FROM transactions.lanes")
    first_nonces = {bytes(row["signer"]): row["first_nonce"] for row in lanes}
    journal = {bytes(row["tx_hash"]) for row in await connection.fetch("SELECT tx_hash FROM transactions.members")}
    journal |= set(foreign)
    head = await node.ask(methods.block_number())
    blocks = await node.ask_many([_transactions_of_block(number) for number in range(head + 1)])
    for block in blocks:
        assert not isinstance(block, Exception), block
        for tx_hash, sender, nonce in block:
            if sender in first_nonces and nonce >= first_nonces[sender]:
                assert tx_hash in journal, f"I4: the chain has 0x{tx_hash.hex()} of ours, the journal does not"


async def _check_single_effects(connection: Connection, node: Reads, contract: Address) -> None:
    """I3 on the chain: no job was recorded twice, and what PostgreSQL calls completed was recorded."""
    rows = await connection.fetch(
        "SELECT job_id, state FROM coordination.jobs WHERE kind = 'counter.record' AND NOT request ? 'job'"
    )
    effects = await effects_of(node, contract, [row["job_id"] for row in rows])
    twice = [job_id for job_id, count in effects.items() if count > 1]
    assert not twice, f"I3: jobs with two effects: {twice}"
    without = [row["job_id"] for row in rows if row["state"] == "completed" and effects[row["job_id"]] != 1]
    assert not without, f"I9: completed jobs without their effect: {without}"


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


def _transactions_of_block(number: int) -> Call[list[tuple[bytes, bytes, int]]]:
    def parse(answer: object) -> list[tuple[bytes, bytes, int]]:
        block = cast("dict[str, Any]", answer)
        return [
            (bytes.fromhex(tx["hash"][2:]), bytes.fromhex(tx["from"][2:]), int(tx["nonce"], 16))
            for tx in block["transactions"]
        ]

    return Call("eth_getBlockByNumber", (hex(number), True), parse)
