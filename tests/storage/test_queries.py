"""Query files: read strictly, bound at import, and every one of them understood by the server at the newest schema."""

import re
from pathlib import Path

import pytest

from nursery.asyncio_bridge import run_asyncio
from storage.database import Database
from storage.driver import PostgresError
from storage.queries import Kind, all_queries, command, many, one, rows_of, scalar
from storage.query_files import QueryFileInvalid, parse, read_queries
from storage.server import connect

# What a pooled connection would carry on to whoever has it next: the pool resets nothing.
LEAVES_A_TRACE = re.compile(
    r"\A(\s|--[^\n]*\n)*set\s+(?!local\b|transaction\b)|set_config\([^)]*,\s*false\s*\)"
    r"|\blisten\b|\bpg_(try_)?advisory_lock(_shared)?\(|\bcreate\s+(temp|temporary)\b|\bdeclare\s+\w+\s+cursor\b",
    re.IGNORECASE,
)

FILE = """-- What jobs can do.

-- name: claim_due
SELECT * FROM jobs
WHERE note <> '$9 -- no parameter' AND due < $2 AND role = $1; -- not $3

-- name: find^
SELECT 1;
-- name: count$
SELECT 2;
--name:   end_if_current!
UPDATE jobs SET note = $tag$ $7 $tag$ WHERE id = $1 AND id <> $1
"""


def _queries(text: str) -> list[tuple[str, Kind, int, int]]:
    found = parse(text, context="coordination", noun="jobs")
    return [(query.ref, query.kind, query.parameters, query.line) for query in found]


def test_a_file_is_read() -> None:
    """Goal: names, kinds, parameters and lines come out right. Method: one file with every trick of the syntax."""
    assert _queries(FILE) == [
        ("coordination/jobs.claim_due", Kind.MANY, 2, 3),
        ("coordination/jobs.find", Kind.ONE, 0, 7),
        ("coordination/jobs.count", Kind.SCALAR, 0, 9),
        ("coordination/jobs.end_if_current", Kind.COMMAND, 1, 11),
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("SELECT 1;", "no `-- name:` line above it"),
        ("-- name: empty\n-- only words\n;\n-- name: next\nSELECT 1", "empty has no statement"),
        ("-- name: rows*!\nSELECT 1", "is no query name"),
        ("-- name: Rows\nSELECT 1", "is no query name"),
        ("-- name: gap\nSELECT $1, $3", r"gap uses \$1, \$3"),
        ("-- name: zero\nSELECT $0", r"zero uses \$0"),
    ],
)
def test_a_bad_file_is_refused(text: str, complaint: str) -> None:
    """Goal: a slip in a file is named with its line. Method: one slip a file."""
    with pytest.raises(QueryFileInvalid, match=complaint):
        _queries(text)


def test_doubles_and_strays_are_refused(tmp_path: Path) -> None:
    """Goal: a name is there once, and a file belongs to a context. Method: a tree with each, beside what is allowed."""
    (tmp_path / "migrations").mkdir()
    (tmp_path / "migrations" / "0001_first.sql").write_text("CREATE TABLE a ();")
    (tmp_path / "schema.sql").write_text("CREATE TABLE a ();")
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "job.sql").write_text("-- name: find\nSELECT 1")
    assert list(read_queries(tmp_path)) == ["jobs/job.find"]
    (tmp_path / "jobs" / "job.sql").write_text("-- name: find\nSELECT 1\n-- name: find^\nSELECT 2")
    with pytest.raises(QueryFileInvalid, match="there already: line 1"):
        read_queries(tmp_path)
    (tmp_path / "jobs" / "job.sql").unlink()
    (tmp_path / "stray.sql").write_text("-- name: find\nSELECT 1")
    with pytest.raises(QueryFileInvalid, match="belongs into the folder of its context"):
        read_queries(tmp_path)


def test_binders_check_name_and_kind() -> None:
    """Goal: a wrong reference or kind fails at import. Method: bind what is not there, and with every wrong binder."""
    with pytest.raises(QueryFileInvalid, match="has no query"):
        many("storage/session.nowhere")
    for wrong in (many, one, scalar):
        with pytest.raises(QueryFileInvalid, match=r"bind it with command\(\)"):
            wrong("storage/session.commit")
    assert command("storage/session.commit").query.sql == "COMMIT;"


@pytest.mark.parametrize(
    ("tag", "rows"),
    [("UPDATE 3", 3), ("INSERT 0 12", 12), ("DELETE 0", 0), ("SELECT 7", 7), ("COMMIT", 0), ("CREATE TABLE", 0)],
)
def test_rows_of(tag: str, rows: int) -> None:
    """Goal: the number of rows in every kind of command tag. Method: the tags of the protocol's documentation."""
    assert rows_of(tag) == rows


async def test_binders_give_what_they_say(database: Database, tmp_path: Path) -> None:
    """Goal: rows, one or none, a value, a number. Method: each binder on the ledger of migrations."""
    async with database.connection() as connection:
        applied = await many("storage/ledger.applied")(connection)
        assert [row["version"] for row in applied] == list(range(1, len(applied) + 1))
        assert await scalar("storage/ledger.version")(connection) == len(applied)
        recorded = await command("storage/ledger.record")(connection, 9999, "tests", b"\0")
        assert recorded == 1


async def test_the_server_understands_every_query(database_url: str, bridge: None) -> None:
    """Goal: every statement parses and fits the newest schema, with as many parameters as we count.

    Method: PREPARE each on a migrated database.
    """
    problems: list[str] = []
    async with connect(database_url, application_name="tests") as raw:
        for query in all_queries().values():
            try:
                prepared = await run_asyncio(raw.prepare, query.sql)
            except PostgresError as error:
                problems.append(f"{query.path}:{query.line} {query.ref}: {error}")
            else:
                assert len(prepared.get_parameters()) == query.parameters, query.ref
    assert problems == []


# What a login must be refused is tried in a transaction that never commits.
COMMITTED = sorted(ref for ref in all_queries() if not ref.startswith("identities/denied."))


@pytest.mark.parametrize("ref", COMMITTED)
def test_no_query_leaves_a_trace_in_its_session(ref: str) -> None:
    """Goal: the pool may hand a connection on without a reset. Method: look for what outlives a transaction."""
    assert LEAVES_A_TRACE.search(all_queries()[ref].sql) is None


@pytest.mark.parametrize(
    "sql",
    [
        "SET timezone = 'UTC'",
        "SET SESSION timezone TO 'UTC'",
        "SELECT set_config('a.b', 'c', false)",
        "LISTEN jobs",
        "SELECT pg_advisory_lock(1)",
        "CREATE TEMP TABLE a ()",
    ],
)
def test_traces_are_recognised(sql: str) -> None:
    """Goal: the rule above catches what it is for. Method: one example a kind."""
    assert LEAVES_A_TRACE.search(sql) is not None
