"""How PostgreSQL runs the hot statements of coordination when its tables have grown: by index, always."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

import pytest
import trio
from attrs import frozen

from nursery.asyncio_bridge import open_bridge
from storage.connection import Connection
from storage.database import Database
from storage.queries import Command, Many, One, Scalar, all_queries
from storage.server import connect
from tayho.coordination import store
from tayho.coordination.module import enqueue_jobs
from tayho.kernel.ids import new_id
from tests.coordination.conftest import CHAIN_ID, ENVIRONMENT, new_job
from tests.services.ballast import WORKER_ID, load_ended, load_open, past_triggers
from tests.services.postgres import MIGRATED, PostgresServer
from tests.waiting import until

ENDED, OPEN = 200_000, 5_000
# What one statement is given: the publisher's own batch, above what a worker fetches.
BATCH = 500
GROWS = {"jobs", "attempts", "outbox"}
# A prepared statement that was run a few times is planned without a look at its arguments.
MODES = ("force_custom_plan", "force_generic_plan")


def an_array(values: Iterator[object] | list[object], kind: str) -> str:
    return "'{" + ",".join(str(value) for value in values) + f"}}'::{kind}[]"


def each(value: object, kind: str) -> str:
    return an_array([value] * BATCH, kind)


SCOPE = f"{CHAIN_ID}, '{ENVIRONMENT}'"
IDS = an_array([UUID(f"0fffffff-ffff-7fff-8fff-{number:012x}") for number in range(1, BATCH + 1)], "uuid")
KEYS = an_array([f"tenant-{number}" for number in range(97)], "text")
DOCUMENTS = f"array_fill('{{\"n\": 1}}'::jsonb, ARRAY[{BATCH}])"
TEXTS = f"array_fill('{{\"n\": 1}}'::text, ARRAY[{BATCH}])"
FENCE = ", ".join([IDS, each(1, "int"), each("a-token-of-the-past", "text"), each(WORKER_ID, "uuid")])
NULLS = f"array_fill(NULL::timestamptz, ARRAY[{BATCH}]), array_fill(NULL::text, ARRAY[{BATCH}])"


@frozen
class Hot:
    """A statement of the hot path: what it is given here, and the indexes by which it finds its rows."""

    arguments: str
    indexes: frozenset[str]


def hot(arguments: str, *indexes: str) -> Hot:
    return Hot(arguments, frozenset(indexes))


PKEYS = ("jobs_pkey", "outbox_pkey", "attempts_pkey")
HOT: Mapping[str, Hot] = {
    "jobs.enqueue": hot(
        f"{SCOPE}, array_fill(gen_random_uuid(), ARRAY[{BATCH}]), {each('new', 'text')}, {each('automation', 'text')}, "
        f"{each('kind', 'text')}, {TEXTS}, {each(1, 'int')}, {NULLS}, array_fill('{{}}'::text, ARRAY[{BATCH}]), true"
    ),
    "jobs.find_by_key": hot(f"{SCOPE}, {each('new', 'text')}, {each('kind', 'text')}, {TEXTS}", "jobs_idempotency_key"),
    "outbox.due": hot(f"{SCOPE}, now(), now()", "outbox_due", "outbox_limited_due"),
    "outbox.claim_due": hot(f"{SCOPE}, {BATCH}, 10, 600, now()", "outbox_due", "jobs_pkey", "outbox_pkey"),
    "outbox.waiting_keys": hot(f"{SCOPE}, '', 200, now()", "outbox_limited_rank", "outbox_limited_due"),
    "outbox.register_limits": hot(f"{SCOPE}, {KEYS}"),
    "outbox.lock_limits": hot(f"{SCOPE}, {KEYS}"),
    "outbox.claim_limited": hot(
        f"{SCOPE}, {KEYS}, 10, 600, 64, {BATCH}, now() - interval '1 hour', now()",
        "outbox_in_flight",
        "outbox_limited_rank",
        "jobs_pkey",
        "outbox_pkey",
    ),
    "outbox.mark_published": hot(f"{IDS}, {each(1, 'int')}, 60", "jobs_pkey", "outbox_pkey"),
    "outbox.advance_generation_if_unfinished": hot(f"{IDS}, {each(1, 'int')}", "jobs_pkey"),
    "outbox.wake": hot(""),
    "attempts.lock_jobs": hot(IDS, "jobs_pkey", "jobs_of_batch"),
    "attempts.begin": hot(
        f"{IDS}, {each(1, 'int')}, {each('a-token-of-the-past', 'text')}, '{WORKER_ID}', 8, {SCOPE}, '{{kind}}', "
        "false, 30, 600, 30",
        *PKEYS,
    ),
    "attempts.end_if_current": hot(
        f"{FENCE}, {each('completed', 'text')}, {DOCUMENTS}, {each(0, 'float8')}, 8", *PKEYS, "attempts_pkey"
    ),
    "attempts.hold_for_lineage_if_current": hot(FENCE, "jobs_pkey"),
    "attempts.lock_if_current": hot(FENCE, "jobs_pkey"),
    "attempts.confirm_if_current": hot(FENCE, *PKEYS),
    "attempts.release_lineage_if_current": hot(f"{FENCE}, {DOCUMENTS}", *PKEYS),
    "attempts.settle": hot(f"{IDS}, {each('completed', 'text')}, {DOCUMENTS}", *PKEYS),
    "releases.release_lineages": hot(f"{IDS}, 'a reason'", "jobs_pkey", "attempts_pkey"),
    "releases.let_go_of_lineage_if_current": hot(FENCE, "jobs_pkey"),
    "revive.permit_revival": hot(""),
    "revive.revive": hot(f"{IDS}, {DOCUMENTS}", "jobs_pkey", "attempts_pkey", "jobs_of_batch"),
    "workers.heartbeat": hot(f"'{WORKER_ID}', {IDS}, false, false", "jobs_pkey"),
    "jobs.inspect": hot(f"'{UUID(int=1)}'", "jobs_pkey", "outbox_pkey"),
    "jobs.jobs_by_id": hot(IDS, "jobs_pkey"),
    "jobs.progress": hot(f"{SCOPE}, {IDS}", "jobs_pkey"),
    "batching.admit": hot(
        f"{SCOPE}, array_fill(gen_random_uuid(), ARRAY[{BATCH}]), {each('new', 'text')}, {each('automation', 'text')}, "
        f"{each('kind', 'text')}, {TEXTS}, {each(1, 'int')}, array_fill(NULL::text, ARRAY[{BATCH}]), "
        f"array_fill('{{}}'::text, ARRAY[{BATCH}])"
    ),
    "batching.batch_if_pending": hot(f"'{UUID(int=1)}', {IDS}", "jobs_pkey"),
    "batching.quarantine_if_pending": hot(f"{IDS}, {DOCUMENTS}", "jobs_pkey"),
    "batching.settle_if_batched": hot(
        f"'{UUID(int=1)}', {IDS}, {each('completed', 'text')}, {DOCUMENTS}", "jobs_pkey", "jobs_of_batch"
    ),
    "batching.permit_children": hot("'restore'"),
    "batching.restore_children": hot(IDS, "jobs_of_batch", "jobs_pkey"),
    "jobs.attempts_of_job": hot(f"'{UUID(int=1)}'", "attempts_pkey"),
    "retention.archive_page": hot(f"{SCOPE}, 30, 120, {BATCH}, 604800", "jobs_pkey", "attempts_pkey"),
    "retention.trim_page": hot(f"{SCOPE}, '{UUID(int=0)}', {BATCH}, 100", "outbox_pkey", "jobs_pkey", "attempts_pkey"),
}
# Why nobody waits for these however much there is to read.
COLD: Mapping[str, str] = {
    "jobs.mark_batch": "reads nothing",
    "jobs.forget_batch": "reads nothing",
    "jobs.keep_batch": "reads nothing",
    "jobs.list_recent": "a person asks; it ends at a page",
    "jobs.count_by_state": "a person asks, and demos",
    "jobs.count_by_kind": "demos ask",
    "outbox.backlog": "gauges, once a scrape; the outbox holds open jobs alone",
    "outbox.ages_by_role": "gauges, once a scrape; a page of open jobs, and the running attempts by their index",
    "workers.register": "once a process",
    "workers.stop": "once a process",
    "workers.live_workers": "a person asks",
    **dict.fromkeys(
        [
            "instances.lock_instance",
            "instances.drain_worker",
            "instances.undrain_worker",
            "instances.standing_of_worker",
        ],
        "a person asks; reads the workers alone",
    ),
    "workers.connections_of_server": "readiness; reads the workers alone",
    "retention.keep_cursor": "reads its own row",
    "retention.as_retention": "reads nothing",
    "retention.reap_workers": "once a week, and then every attempt once",
    **dict.fromkeys(
        ["schedules.declare", "schedules.hold", "schedules.read_ours", "schedules.advance_if_undecided"],
        "reads the schedules alone, of which there are as many as people wrote",
    ),
    "schedules.list_all": "a person asks",
    "batching.standing_of_batch": "a person asks",
    "batching.release_children": "a person asks, of one batch",
    **dict.fromkeys(
        [
            *("control.cancel_if_open", "control.list_dead", "control.lock_for_control", "control.page_of_dead"),
            *("control.page_of_open", "control.permit_replay", "control.record_action", "control.replay_if_dead"),
            *("control.states_of", "control.wake_workers", "explain.facts", "throttles.backlog_by_role"),
            *("throttles.drop_limit", "throttles.end_pause", "throttles.list_limits", "throttles.list_pauses"),
            *("throttles.make_page_due", "throttles.pause_unless_paused", "throttles.put_limit"),
        ],
        "a person acts or asks; test_control_bulk holds the pages to their indexes",
    ),
}


BURST = (*(1,) * 10, BATCH, BATCH)
INSERTED = "SELECT n_tup_ins FROM pg_stat_user_tables WHERE relid = 'coordination.jobs'::regclass"
READ_WHOLE = """
SELECT sum(seq_tup_read)::bigint FROM pg_stat_user_tables
WHERE schemaname = 'coordination' AND relname IN ('jobs', 'outbox')
"""

# A hundred running attempts for each open job, and then none: what dead rows leave behind until they are removed.
PILE_UP = """
INSERT INTO coordination.attempts (job_id, attempt_number, generation, token, worker_id, state)
SELECT ('0fffffff-ffff-7fff-8fff-' || lpad(to_hex(n), 12, '0'))::uuid, 1, 1, 'a-token-of-the-past', $1, 'running'
FROM generate_series(1, 50000) AS n
"""
DRAIN = """
UPDATE coordination.attempts SET state = 'completed', ended_at = now() WHERE state = 'running';
DELETE FROM coordination.outbox;
ANALYZE
"""


@pytest.fixture(scope="module")
def drained_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A database with nothing to do, in whose indexes of open work every entry is of a dead row, and believed gone."""

    async def drain(url: str) -> None:
        async with open_bridge():
            await load_ended(url, CHAIN_ID, ENVIRONMENT, ENDED // 10)
            await load_open(url, CHAIN_ID, ENVIRONMENT, 10 * OPEN)
            async with past_triggers(url) as connection:
                await connection.execute(PILE_UP, WORKER_ID)
                await connection.execute(DRAIN)

    with postgres_server.database(MIGRATED) as url:
        trio.run(drain, url)
        yield url


@pytest.fixture(scope="module")
def grown_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A database with a long past and a busy present, as far as its statistics tell."""

    async def grow(url: str) -> None:
        async with open_bridge():
            await load_ended(url, CHAIN_ID, ENVIRONMENT, ENDED)
            await load_open(url, CHAIN_ID, ENVIRONMENT, OPEN)
            async with connect(url, application_name="tests") as raw:
                await Connection(raw, in_transaction=False).execute("VACUUM (ANALYZE)")

    with postgres_server.database(MIGRATED) as url:
        trio.run(grow, url)
        yield url


def bound() -> set[str]:
    """Every statement that coordination has, by its reference inside the context."""
    kinds = (Many, One, Scalar, Command)
    refs = {value.query.ref for value in vars(store).values() if isinstance(value, kinds)}
    return {ref.removeprefix("coordination/") for ref in refs}


def test_every_statement_is_hot_or_cold() -> None:
    """Goal: no new statement goes unlooked at. Method: the statements of the store are exactly those named here."""
    assert bound() == {*HOT, *COLD}
    assert not {*HOT} & {*COLD}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ref", sorted(HOT))
async def test_a_hot_statement_finds_its_rows_by_the_meant_indexes(
    grown_url: str, bridge: None, ref: str, mode: str
) -> None:
    """Goal: what it costs does not grow with the tables. Method: 200,000 ended and 5,000 open jobs, a batch as large as
    any, planned with and without a look at the arguments: no table that grows is read whole, and the indexes are those
    that it was written for."""
    steps = await steps_of(grown_url, ref, mode)
    read_whole = {step["Relation Name"] for step in steps if step["Node Type"] == "Seq Scan"}
    assert not read_whole & GROWS
    indexes = {step["Index Name"] for step in steps if "Index Name" in step}
    assert {index for index in indexes if index.startswith(tuple(GROWS))} == HOT[ref].indexes


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ref", sorted(HOT))
async def test_a_hot_statement_walks_no_index_that_is_believed_empty(
    drained_url: str, bridge: None, ref: str, mode: str
) -> None:
    """Goal: dead rows that nobody may remove yet, because of an old snapshot, cost nothing. Method: fifty thousand jobs
    ran and ended, and only the statistics know of it; every index is entered at a key, or at the scope's beginning by
    those who look for what is due."""
    steps = [step for step in await steps_of(drained_url, ref, mode) if "Index Name" in step]
    for step in steps:
        if step["Index Name"].startswith(("outbox_", "attempts_")):
            assert "Index Cond" in step, step


async def test_plans_that_were_made_on_empty_tables_read_none_whole_when_they_fill(
    database_url: str, bridge: None
) -> None:
    """Goal: a burst of jobs on a quiet system costs each of them the same. Method: tables that are known to be empty, a
    few jobs, and then many by the same connection, which keeps its plans, those of foreign keys too; PostgreSQL counts
    the rows that reads of whole tables saw."""
    async with connect(database_url, application_name="tests") as raw:
        await Connection(raw, in_transaction=False).execute("VACUUM (ANALYZE)")
    async with Database.open(database_url, pool_size=1, application_name="tests") as database:
        for count in BURST:
            jobs = [new_job(str(new_id())) for _ in range(count)]
            await enqueue_jobs(database, CHAIN_ID, ENVIRONMENT, jobs)
    async with connect(database_url, application_name="tests") as raw:
        watch = Connection(raw, in_transaction=False)

        async def is_counted() -> bool:
            return await watch.fetchval(INSERTED) == sum(BURST)

        await until(is_counted, seconds=20, what="a backend's counters, which it reports at its end")
        assert await watch.fetchval(READ_WHOLE) == 0


async def steps_of(url: str, ref: str, mode: str) -> list[Mapping[str, Any]]:
    async with connect(url, application_name="tests") as raw:
        return list(plan_steps(await plan_of(Connection(raw, in_transaction=False), ref, mode)))


async def plan_of(connection: Connection, ref: str, mode: str) -> Mapping[str, Any]:
    """The plan of the statement in that mode, not run."""
    await connection.execute(f"SET plan_cache_mode = {mode}")
    await connection.execute(f"PREPARE asked AS {all_queries()[f'coordination/{ref}'].sql}")
    arguments = f"({HOT[ref].arguments})" if HOT[ref].arguments else ""
    (found,) = await connection.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE asked {arguments}")
    return found["Plan"]


def plan_steps(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from plan_steps(below)
