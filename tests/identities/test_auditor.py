"""The auditor's login against what it must not reach (OPS-3). It is asked as the server sees it: by SQL."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID, uuid4

import pytest

from storage.connection import Connection
from storage.errors import Refused
from storage.server import connect
from tests.identities.conftest import Logins

INSUFFICIENT_PRIVILEGE = "42501"
JOB = """
INSERT INTO coordination.jobs
    (job_id, chain_id, environment, idempotency_key, request_digest, role, kind, request, priority, run_at, state)
VALUES ($1, 1, 'local', $2, sha256('x'), $3, 'audit', '{}', 1000, now(), 'queued')
"""
WORKER = """
INSERT INTO coordination.workers (worker_id, instance_id, chain_id, environment, roles, host, process_id, version)
VALUES ($1, 'one', 1, 'local', $2, 'host', 1, '1')
"""
OUTBOX = """
INSERT INTO coordination.outbox (job_id, chain_id, environment, due_at, rank_at)
VALUES ($1, 1, 'local', now(), now())
"""
ATTEMPT = """
INSERT INTO coordination.attempts (job_id, attempt_number, generation, token, worker_id, state)
VALUES ($1, 1, 1, 'a token that is long', $1, 'running')
"""


async def run(url: str, *statements: tuple[str, Sequence[object]]) -> list[str]:
    """What becomes of each: the command tag, or the SQLSTATE of the refusal."""
    said: list[str] = []
    async with connect(url, application_name="tests auditor") as raw:
        connection = Connection(raw, in_transaction=False)
        for sql, arguments in statements:
            try:
                said.append(await connection.execute(sql, *arguments))
            except Refused as error:
                said.append(error.sqlstate)
    return said


@pytest.fixture
async def jobs(logins: Logins) -> tuple[UUID, UUID]:
    """A job of the auditor's and one of another role, each with an outbox row, an attempt and a worker."""
    own, foreign = uuid4(), uuid4()
    done = await run(
        logins.urls["runtime"],
        *((JOB, (one, str(one), role)) for one, role in ((own, "auditor"), (foreign, "automation"))),
        *((OUTBOX, (one,)) for one in (own, foreign)),
        *((ATTEMPT, (one,)) for one in (own, foreign)),
        *((WORKER, (one, [role])) for one, role in ((own, "auditor"), (foreign, "automation"))),
    )
    assert done == ["INSERT 0 1"] * 8
    return own, foreign


async def test_the_auditor_reads_no_signed_bytes(logins: Logins) -> None:
    """Goal: the ciphertext is not selectable to it. Method: every way to name the column."""
    asked = (
        "SELECT ciphertext FROM transactions.members",
        "SELECT cipher_nonce FROM transactions.members",
        "SELECT * FROM transactions.members",
        "SELECT members FROM transactions.members AS members",
        "SELECT to_jsonb(members) FROM transactions.members AS members",
        "SELECT count(*) FROM transactions.members WHERE length(ciphertext) > 0",
        "SELECT tx_hash FROM transactions.members ORDER BY ciphertext",
        "COPY transactions.members TO STDOUT",
    )
    assert await run(logins.urls["auditor"], *((sql, ()) for sql in asked)) == [INSUFFICIENT_PRIVILEGE] * len(asked)
    assert await run(logins.urls["auditor"], ("SELECT tx_hash, state FROM transactions.members", ())) == ["SELECT 0"]


async def test_the_auditor_changes_only_its_own_rows(logins: Logins, jobs: tuple[UUID, UUID]) -> None:
    """Goal: it can run its own jobs and touch no other. Method: read, insert, change, lock and delete, for its own rows
    and for another role's."""
    own, foreign = jobs
    tables = ("jobs", "outbox", "attempts")
    url = logins.urls["auditor"]
    # All are seen.
    reads = [(f"SELECT job_id FROM coordination.{table}", ()) for table in tables]
    assert await run(url, *reads, ("SELECT 1 FROM coordination.workers", ())) == ["SELECT 2"] * 4
    for job_id, changed, deleted in ((own, "UPDATE 1", "DELETE 1"), (foreign, "UPDATE 0", "DELETE 0")):
        assert await run(
            url,
            ("UPDATE coordination.jobs SET updated_at = now() WHERE job_id = $1", (job_id,)),
            ("UPDATE coordination.outbox SET due_at = now() WHERE job_id = $1", (job_id,)),
            ("UPDATE coordination.attempts SET detail = '{}' WHERE job_id = $1", (job_id,)),
            ("UPDATE coordination.workers SET heartbeat_at = now() WHERE worker_id = $1", (job_id,)),
            ("DELETE FROM coordination.outbox WHERE job_id = $1", (job_id,)),
        ) == [changed] * 4 + [deleted]
        locked = await run(url, ("SELECT FROM coordination.jobs WHERE job_id = $1 FOR UPDATE", (job_id,)))
        assert locked == ["SELECT 1" if job_id == own else "SELECT 0"]


async def test_the_auditor_cannot_make_a_row_of_another(logins: Logins, jobs: tuple[UUID, UUID]) -> None:
    """Goal: no row leaves its role by the auditor's hand. Method: insert for others, and hand its own over."""
    own, foreign = jobs
    new = uuid4()
    await run(logins.urls["runtime"], ("DELETE FROM coordination.outbox", ()))
    assert await run(
        logins.urls["auditor"],
        (JOB, (new, "one of relayers", "relayer")),
        (WORKER, (new, ["relayer"])),
        (WORKER, (new, ["auditor", "relayer"])),
        (OUTBOX, (foreign,)),
        ("UPDATE coordination.workers SET roles = '{relayer}' WHERE worker_id = $1", (own,)),
        ("UPDATE coordination.outbox SET job_id = $1 WHERE job_id = $2", (foreign, own)),
        (JOB, (new, "one of its own", "auditor")),
        (OUTBOX, (own,)),
        (WORKER, (new, ["auditor"])),
    ) == [*[INSUFFICIENT_PRIVILEGE] * 5, "UPDATE 0", *["INSERT 0 1"] * 3]
