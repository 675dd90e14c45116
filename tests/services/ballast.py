"""A database with a past: rows made by the server itself, past the triggers, as years of work would have left them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from uuid import UUID

import trio

from storage.connection import Connection
from storage.server import connect

CHUNK = 250_000
WORKER_ID = UUID(int=0)
# Ids as `new_id` makes them, one each hundred milliseconds, the last of them half a day ago.
_ID = """
(lpad(to_hex((extract(epoch FROM now() - interval '12 hours') * 1000)::bigint - ({rows} - n) * 100), 12, '0')
    || '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15))::uuid
"""
_WORKER = """
INSERT INTO coordination.workers (worker_id, instance_id, chain_id, environment, roles, host, process_id, version)
VALUES ('00000000-0000-0000-0000-000000000000', 'past', {chain_id}, '{environment}', '{{automation}}', 'past', 1, '0')
ON CONFLICT DO NOTHING
"""
_JOBS = """
INSERT INTO coordination.jobs (
    job_id, chain_id, environment, idempotency_key, request_digest, role, kind, request, priority, run_at, limit_key,
    state, attempt_number, attempts_spent, result, created_at, updated_at, ended_at
)
SELECT {id}, {chain_id}, '{environment}', 'past-' || lpad(n::text, 9, '0'), decode(repeat('5a', 32), 'hex'),
    'automation', 'kind', '{{"n": 1}}', 1000, at, NULLIF('tenant-' || n % 50, 'tenant-0'),
    CASE WHEN n % 1000 = 0 THEN 'dead' WHEN n % 20 = 0 THEN 'not_actionable' ELSE 'completed' END,
    1, 1, '{{"result": null}}', at, at, at
FROM (
    SELECT n, now() - interval '12 hours' - ({rows} - n) * interval '100 milliseconds' AS at
    FROM generate_series({first}, {last}) AS n
) AS numbers
"""
_ATTEMPTS = """
INSERT INTO coordination.attempts (job_id, attempt_number, generation, token, worker_id, state, started_at, ended_at)
SELECT {id}, 1, 1, 'a-token-of-the-past', '00000000-0000-0000-0000-000000000000', 'completed', now(), now()
FROM generate_series({first}, {last}) AS n
"""
# Of the open jobs every other one has a limit key, a few keys have most of them, and half wait for their check.
_OPEN_JOBS = """
INSERT INTO coordination.jobs (
    job_id, chain_id, environment, idempotency_key, request_digest, role, kind, request, priority, run_at, limit_key,
    state
)
SELECT ('0fffffff-ffff-7fff-8fff-' || lpad(to_hex(n), 12, '0'))::uuid, {chain_id}, '{environment}', 'open-' || n,
    decode(repeat('5a', 32), 'hex'), 'automation', 'kind', '{{"n": 1}}', 1000, now(),
    CASE WHEN n % 2 = 0 THEN 'tenant-' || (n::bigint * n) % 97 END, 'queued'
FROM generate_series(1, {rows}) AS n
"""
_OUTBOX = """
INSERT INTO coordination.outbox (job_id, chain_id, environment, due_at, published_at, limit_key, rank_at)
SELECT job_id, chain_id, environment,
    CASE WHEN n % 10 = 0 THEN now() - interval '1 second' ELSE now() + interval '1 minute' END,
    CASE WHEN n % 4 < 2 THEN now() END, limit_key, run_at
FROM (
    SELECT jobs.*, row_number() OVER () AS n FROM coordination.jobs AS jobs WHERE state = 'queued'
) AS numbered
"""


@asynccontextmanager
async def past_triggers(url: str) -> AsyncGenerator[Connection]:
    """A connection whose statements no trigger and no foreign key looks at. A superuser's."""
    async with connect(url, application_name="ballast") as raw:
        connection = Connection(raw, in_transaction=False)
        await connection.execute("SET session_replication_role = replica")
        yield connection


@asynccontextmanager
async def held_snapshot(url: str) -> AsyncGenerator[None]:
    """Somebody's transaction that saw the database at its beginning and goes on doing so: no dead row is removed.

    Not from the pool, which ends a transaction that is idle for a minute: a report, a backup, a standby.
    """
    async with connect(url, application_name="held snapshot") as raw:
        connection = Connection(raw, in_transaction=True)
        await connection.execute("SET idle_in_transaction_session_timeout = 0")
        await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        await connection.fetchval("SELECT count(*) FROM coordination.outbox")
        yield
        # Fails if the server has ended it meanwhile.
        await connection.execute("COMMIT")


async def load_ended(url: str, chain_id: int, environment: str, rows: int) -> None:
    """So many ended jobs, each with its attempt."""
    names = {"chain_id": chain_id, "environment": environment, "rows": rows, "id": _ID.format(rows=rows)}

    async def load(sql: str) -> None:
        async with past_triggers(url) as connection:
            for first in range(1, rows + 1, CHUNK):
                await connection.execute(sql.format(**names, first=first, last=min(first + CHUNK - 1, rows)))

    async with trio.open_nursery() as loading:
        for sql in (_WORKER, _JOBS, _ATTEMPTS):
            loading.start_soon(load, sql)


async def load_open(url: str, chain_id: int, environment: str, rows: int) -> None:
    """So many queued jobs with their outbox rows: a tenth is due, half were published."""
    names = {"chain_id": chain_id, "environment": environment, "rows": rows}
    async with past_triggers(url) as connection:
        await connection.execute(_OPEN_JOBS.format(**names))
        await connection.execute(_OUTBOX.format(**names))
