"""tayho.enqueue in SQL: the same door as in Python, for producers in any language (DLV-1, DLV-2, DLV-10)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
import trio
from attrs import evolve, field, frozen
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import tayho
from nursery.asyncio_bridge import open_bridge, run_asyncio
from storage.database import Connection, Database, Row
from storage.errors import Refused, SerializationLost
from tayho.kernel.json_document import DOCUMENT_BYTES_MAX, DocumentRefused, parse
from tayho.kernel.roles import ROLES
from tests.coordination.conftest import CHAIN_ID, ENVIRONMENT, ROLE, Plane, new_job
from tests.waiting import until

CALLERS = 100
CALL = "SELECT job_id, created, state FROM tayho.enqueue($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
RECORDED = """
    SELECT
        jobs.chain_id, jobs.environment, jobs.idempotency_key, jobs.request_digest, jobs.role, jobs.kind, jobs.request,
        jobs.priority, jobs.limit_key, jobs.tags, jobs.state, jobs.generation,
        CASE WHEN jobs.run_at > now() + interval '1 minute' THEN jobs.run_at END AS run_at,
        outbox.due_at - jobs.run_at AS due_after, outbox.rank_at - jobs.run_at AS rank_after,
        outbox.limit_key AS outbox_limit_key, outbox.published_at, outbox.chain_id AS outbox_chain_id
    FROM coordination.jobs AS jobs JOIN coordination.outbox AS outbox USING (job_id)
"""


@frozen
class Asked:
    """What one producer asks for; good, unless a field is changed."""

    request: Any = field(factory=lambda: {"n": 1})
    kind: str = "kind"
    role: str = ROLE
    key: str = "key"
    priority: int = 1_000
    run_at: datetime | None = None
    limit_key: str | None = None
    tags: tuple[str, ...] = ()
    chain_id: int = CHAIN_ID
    environment: str = ENVIRONMENT
    # How the text is written that SQL is given.
    is_ascii: bool = True
    indent: int | None = None

    @property
    def text(self) -> str:
        return json.dumps(self.request, ensure_ascii=self.is_ascii, indent=self.indent)


async def in_python(tx: Connection, asked: Asked) -> tayho.Enqueued:
    return await tayho.enqueue(
        tx, asked.kind, asked.key, asked.request, role=asked.role, chain_id=asked.chain_id,
        environment=asked.environment, priority=asked.priority, run_at=asked.run_at, limit_key=asked.limit_key,
        tags=asked.tags,
    )  # fmt: skip


async def in_sql(tx: Connection, asked: Asked) -> tayho.Enqueued:
    (row,) = await tx.fetch(
        CALL, asked.chain_id, asked.environment, asked.kind, asked.role, asked.key, asked.text,
        asked.priority, asked.run_at, asked.limit_key, asked.tags, True,
    )  # fmt: skip
    return tayho.Enqueued(row["job_id"], asked.key, row["created"], row["state"])


class _Undone(Exception):
    pass


@frozen
class Verdict:
    """What a door did: the sort of its refusal, or what it recorded."""

    refusal: str | None = None
    recorded: Mapping[str, object] | None = None


async def verdict_of(
    database: Database,
    asked: Asked,
    door: Callable[[Connection, Asked], Awaitable[tayho.Enqueued]],
    other: Callable[[Connection, Asked], Awaitable[tayho.Enqueued]],
) -> Verdict:
    """What `door` makes of it, in a transaction that is undone; what it records, `other` must find as the same job."""
    verdict = Verdict()
    with suppress(_Undone):
        async with database.transaction() as tx:
            try:
                answer = await door(tx, asked)
            except tayho.DocumentRefused:
                verdict = Verdict("TY011")
            except tayho.ArgumentRefused:
                verdict = Verdict("TY012")
            except Refused as refused:
                verdict = Verdict(refused.sqlstate)
            else:
                assert answer.created
                (row,) = await tx.fetch(RECORDED)
                verdict = Verdict(recorded=dict(row.items()))
                # A refusal here is none of the verdict: it fails the test.
                assert await other(tx, asked) == evolve(answer, created=False)
            raise _Undone
    return verdict


_TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=6)
# Of two lone surrogates JSON text would make one whole character.
_DOCUMENT_TEXTS = st.text(max_size=6) | st.sampled_from(["\x00", "a\ud800", "\udfff", '\\"', "1e5", "\u2028"])
_DOCUMENTS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**257), 2**257)
    | st.sampled_from([2**256 - 1, 2**256, -(2**256), 10**400])
    | st.floats()
    | st.floats(-1, 1)
    | st.sampled_from([0.1, 1e-4, 9.9e-5, 1e15 + 0.5, 1e16, 1.0, -2.5])
    | _DOCUMENT_TEXTS,
    lambda children: st.lists(children, max_size=4) | st.dictionaries(_DOCUMENT_TEXTS, children, max_size=4),
    max_leaves=12,
)


def _nested(depth: int) -> Any:
    value: Any = 7
    for number in range(depth):
        value = [value] if number % 2 else {"in": value}
    return {"top": value}


_LARGE = st.builds(
    lambda missing, unit: {
        "a": [1, {}, [], {"b": "é"}],
        "c": unit * ((DOCUMENT_BYTES_MAX - missing) // len(unit.encode())),
    },
    st.integers(30, 38),
    st.sampled_from(["x", "é"]),
)
_REQUESTS = (
    st.dictionaries(_DOCUMENT_TEXTS, _DOCUMENTS, max_size=4)
    | st.sampled_from([62, 63, 64, 65]).map(_nested)
    | _LARGE
    | st.sampled_from([[], "text", 1, None])
)
_NAMES = _TEXTS | st.sampled_from(["", "a\tb", "a\x7fb", "a\x9fb", "k" * 128, "k" * 129, "é" * 255, "é" * 256, "meta"])
_FIELDS: Mapping[str, st.SearchStrategy[Any]] = {
    "request": _REQUESTS,
    "kind": _NAMES,
    "role": st.sampled_from([*ROLES, "", "Payouts", "nobody"]),
    "key": _NAMES,
    "priority": st.integers(-1, 2**21 + 1) | st.sampled_from([0, 1, 2**21 - 1, 2**21]),
    "run_at": st.datetimes(timezones=st.just(UTC))
    | st.sampled_from([datetime(2099, 12, 31, 23, 59, 59, 999_999, UTC), datetime(2100, 1, 1, tzinfo=UTC)]),
    "limit_key": _NAMES,
    "tags": st.lists(_NAMES, max_size=17).map(tuple) | st.just(("a",) * 16),
    "chain_id": st.sampled_from([0, -1, 1, 2**63 - 37, 2**63 - 36, 2**63 - 1]),
    "environment": st.sampled_from(["live", "", "Live", "a" * 63, "a" * 64, "a\n", "7"]),
}
# One field apart from what is good, and every field at once.
_CASES = (
    _REQUESTS.map(Asked)
    | st.sampled_from(list(_FIELDS)).flatmap(lambda name: _FIELDS[name].map(lambda value: Asked(**{name: value})))
    | st.builds(Asked, **_FIELDS, indent=st.sampled_from([None, 1]))
)


# Each bound and the value beyond it, because chance alone seldom meets them.
_BOUNDS = [
    *(Asked(_nested(depth)) for depth in (63, 64)),
    *(Asked({"c": "x" * (DOCUMENT_BYTES_MAX - missing)}) for missing in (7, 8, 9)),
    *(Asked({"n": sign * number}) for sign in (1, -1) for number in (2**255, 2**256 - 1, 2**256)),
    *(Asked({"n": number}) for number in (1e15 + 0.5, 9_999_999_999_999_998.0, 1e16, 1e-4, 9.9e-5, 0.0, 0.1, 1e300)),
    *(Asked(kind="k" * length) for length in (0, 1, 128, 129)),
    *(Asked(key="é" * length) for length in (0, 1, 255, 256)),
    *(Asked(limit_key="😀" * length) for length in (0, 1, 255, 256)),
    *(Asked(tags=("t" * length,)) for length in (0, 1, 64, 65)),
    *(Asked(tags=("t",) * count) for count in (0, 16, 17)),
    *(Asked(key=f"a{letter}b") for letter in "\x01\x1f \x7e\x7f\x80\x9f\xa0\u2028"),
    *(Asked(priority=number) for number in (0, 1, 2**21 - 1, 2**21)),
    *(Asked(run_at=at) for at in (datetime(2099, 12, 31, 23, 59, 59, 999_999, UTC), datetime(2100, 1, 1, tzinfo=UTC))),
    *(Asked(chain_id=number) for number in (0, 1, 2**63 - 37, 2**63 - 36)),
    *(Asked(environment=name) for name in ("a" * 63, "a" * 64, "a\n", "7", "a-7")),
    *(Asked(role=name) for name in (*ROLES, "", "Payouts")),
]


def _compare(database_url: str, cases: Sequence[Asked]) -> None:
    async def compare() -> None:
        async with open_bridge(), Database.open(database_url, pool_size=1, application_name="tests") as database:
            for asked in cases:
                python = await verdict_of(database, asked, in_python, in_sql)
                sql = await verdict_of(database, asked, in_sql, in_python)
                assert (python.refusal is None) == (sql.refusal is None), (asked, python.refusal, sql.refusal)
                assert python.recorded == sql.recorded, asked

    trio.run(compare)


@given(cases=st.lists(_CASES, min_size=10, max_size=25))
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
def test_both_doors_decide_alike_and_record_the_same(database_url: str, cases: Sequence[Asked]) -> None:
    """Goal: one door in two languages. Method: for any arguments and documents both take or both refuse; what one
    records (digest, rank, priority, tags, time) is what the other records, and each finds the other's job."""
    _compare(database_url, cases)


def test_both_doors_end_at_the_same_bounds(database_url: str) -> None:
    """Goal: as above, at the edges. Method: the last value that is taken and the first that is not, of each bound."""
    _compare(database_url, _BOUNDS)


# A text, and what SQL makes of it: refused, or how it reads it.
_TEXT_CASES = [
    ('{"a": 1, "a": 2}', None),
    ('{"a": {"b": 1, "\\u0062": 2}}', None),
    ('{"a": 1e400}', None),
    ('{"a": [-1E5]}', None),
    ('{"a": 1.5e-3}', None),
    ('{"a": "1e400"}', '{"a": "1e400"}'),
    ('{"a\\"1e5": "\\\\"}', '{"a\\"1e5": "\\\\"}'),
    ('{"a": NaN}', None),
    ('{"a": 01}', None),
    ('{"a": 1} {}', None),
    ("{'a': 1}", None),
    ("\ufeff{}", None),
    ("", None),
    ("[]", None),
    (" { } ", "{}"),
    ('{"a": -0}', '{"a": 0}'),
    ('{"a": 1.50}', '{"a": 1.50}'),
    ('{"a": 0.1000000000000000000001}', None),
    ('{"a": 0.00001}', None),
    ('{"a": 12345678901234567.5}', None),
    ('{"a": ' + "9" * 5_000 + "}", None),
    ('{"a": 0.' + "0" * 20_000 + "1}", None),
    ('{"a": "\\u0000"}', None),
    ('{"a": "\\ud800"}', None),
    ('{"a": "\\ud83d\\ude00"}', '{"a": "😀"}'),
    ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", None),
    ("{" + " " * 2**20 + "}", None),
    ('{"a": "' + "\\u00e9" * 30_000 + '"}', '{"a": "' + "é" * 30_000 + '"}'),
    ('{"a": "' + "x" * 65 * 1024 + '"}', None),
]


@pytest.mark.parametrize(
    ("text", "read"), _TEXT_CASES, ids=[text[:30].encode("unicode_escape").decode() for text, _ in _TEXT_CASES]
)
async def test_a_text_is_read_as_every_reader_reads_it_or_refused(
    database: Database, text: str, read: str | None
) -> None:
    """Goal: what one parser drops, bends or writes out never becomes a request. Method: texts that a producer in
    another language may write; whatever SQL takes, the strict parser of the Python side takes for the same value."""
    async with database.connection() as connection:
        if read is None:
            with pytest.raises(Refused) as refused:
                await connection.fetch("SELECT tayho.document_of($1)::text", text)
            assert refused.value.sqlstate == "TY011"
        else:
            (row,) = await connection.fetch("SELECT tayho.document_of($1)::text AS document", text)
            assert row["document"] == read
            assert parse(text) == json.loads(read)


def test_the_strict_parser_refuses_an_integer_that_python_would_not_read() -> None:
    """Goal: one sort of refusal for what is no document. Method: more digits than int() takes."""
    with pytest.raises(DocumentRefused):
        parse('{"a": ' + "9" * 5_000 + "}")


async def _refusal(database: Database, **changed: object) -> asyncpg.PostgresError:
    """PostgreSQL's own words, as a producer in another language hears them."""
    given = {
        "chain_id": CHAIN_ID, "environment": ENVIRONMENT, "kind": "kind", "role": ROLE, "key": "key",
        "request": '{"n": 1}', "priority": 1, "run_at": None, "limit_key": None, "tags": [], "wake": True, **changed,
    }  # fmt: skip
    async with database.connection() as connection:
        with pytest.raises(asyncpg.PostgresError) as refused:
            await run_asyncio(connection.raw.fetch, CALL, *given.values())
    return refused.value


@pytest.mark.parametrize(
    ("changed", "sqlstate", "message", "hint"),
    [
        ({"request": '{"n": 2}'}, "TY010", "the idempotency key 'key' belongs to job", "Use another key"),
        ({"request": None}, "TY011", "it is missing", "Store it, and pass a reference."),
        ({"request": "[1]"}, "TY011", "it is no JSON object", "Give an object"),
        ({"chain_id": None}, "TY012", "chain_id is no chain id", "Give the CHAIN_ID"),
        ({"environment": None}, "TY012", "environment is no environment", "Give the ENVIRONMENT"),
        ({"kind": None}, "TY012", "kind has no characters", "Give 1 to 128"),
        ({"role": None}, "TY012", "role NULL is no role", "Give the role of the kind"),
        ({"key": "k" * 300}, "TY012", "idempotency_key has 300 characters", "Give 1 to 255"),
        ({"priority": None}, "TY012", "priority NULL is out of range", "Give 1 (most urgent)"),
        (
            {"run_at": datetime.max.replace(tzinfo=UTC)},
            "TY012",
            "run_at is after the year 2099",
            "Give an earlier time",
        ),
        ({"limit_key": ""}, "TY012", "limit_key has 0 characters", "Give 1 to 255"),
        ({"tags": None}, "TY012", "tags is no list", "Give at most 16"),
        ({"tags": ["a", None]}, "TY012", "a tag has no characters", "Give 1 to 64"),
        ({"tags": [["a"], ["b"]]}, "TY012", "tags is no list", "Give at most 16"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_refusal_says_what_happened_and_what_to_do(
    plane: Plane, changed: dict[str, object], sqlstate: str, message: str, hint: str
) -> None:
    """Goal: a producer that reads only SQLSTATEs and hints can mend its request. Method: each refusal once; nothing is
    recorded beside the job that was there."""
    await plane.enqueue("key", n=1)
    refused = await _refusal(plane.database, **changed)
    assert refused.sqlstate == sqlstate
    assert message in str(refused)
    assert hint in refused.hint
    assert len(await plane.coordination.list_recent()) == 1


async def test_a_conflict_names_both_digests(plane: Plane) -> None:
    """Goal: the same words at both doors. Method: the SQL refusal beside the Python one, of the same two requests."""
    await plane.enqueue("key", n=1)
    refused = await _refusal(plane.database, request='{"n": 2}')
    with pytest.raises(tayho.IdempotencyConflict) as python:
        await plane.coordination.enqueue(new_job("key", n=2))
    assert python.value.recorded_digest.hex() in str(refused)
    assert python.value.asked_digest.hex() in str(refused)
    assert str(python.value).startswith(refused.args[0])


async def test_a_hundred_callers_of_both_doors_make_one_job(database_url: str, plane: Plane) -> None:
    """Goal: I7 across languages. Method: a hundred connections race for one key, every other one in SQL."""
    answers: list[tayho.Enqueued] = []
    async with Database.open(database_url, pool_size=CALLERS, application_name="racers") as database:

        async def call(number: int) -> None:
            async with database.transaction() as tx:
                answers.append(await (in_sql if number % 2 else in_python)(tx, Asked()))

        async with trio.open_nursery() as callers:
            for number in range(CALLERS):
                callers.start_soon(call, number)
    assert len({answer.job_id for answer in answers}) == 1
    assert sum(answer.created for answer in answers) == 1
    assert len(await plane.coordination.list_recent()) == 1


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
async def test_under_a_stricter_isolation_sql_tells_to_run_again(plane: Plane, isolation: str) -> None:
    """Goal: no conflict is made up from an old snapshot. Method: the key is committed by another after the caller's
    snapshot was taken: a serialization failure, and nothing else."""
    with pytest.raises(SerializationLost):
        async with plane.database.transaction(isolation=isolation) as tx:  # pyright: ignore[reportArgumentType]
            await tx.fetchval("SELECT count(*) FROM coordination.jobs")
            await plane.coordination.enqueue(new_job())
            await in_sql(tx, Asked())
    assert len(await plane.coordination.list_recent()) == 1


async def test_the_roles_of_the_database_are_those_of_the_code(database: Database) -> None:
    """Goal: no role is known to one door alone. Method: compare the table with the kernel."""
    async with database.connection() as connection:
        rows = await connection.fetch("SELECT role FROM tayho.roles")
    assert {row["role"] for row in rows} == set(ROLES)


async def test_identifiers_made_in_sql_are_version_7_and_sort_by_time(database: Database) -> None:
    """Goal: the layout of RFC 9562, as the Python side makes it. Method: a thousand ids between two readings of the
    clock: version, variant, milliseconds, no two alike."""
    async with database.connection() as connection:
        rows: list[Row] = await connection.fetch(
            "SELECT clock_timestamp() AS before, tayho.new_id() AS id, clock_timestamp() AS after"
            " FROM generate_series(1, 1000)"
        )
    assert len({row["id"] for row in rows}) == len(rows)
    for row in rows:
        assert (row["id"].version, row["id"].variant) == (7, "specified in RFC 4122")
        made_at = datetime.fromtimestamp((row["id"].int >> 80) / 1_000, UTC)
        assert row["before"] - timedelta(milliseconds=1) < made_at <= row["after"]


async def test_sql_wakes_publishers_at_the_commit_unless_told_not_to(plane: Plane) -> None:
    """Goal: as at the Python door. Method: a quiet job, a loud one, the loud one again; one notification."""
    heard: list[str] = []
    async with trio.open_nursery() as tasks:
        listening = ["tayho_outbox", "tayho_control"]
        tasks.start_soon(plane.database.listen, listening, lambda channel, payload: heard.append(payload or channel))

        async def say(text: str) -> None:
            async with plane.database.connection() as connection:
                await connection.fetch("SELECT pg_notify('tayho_control', $1)", text)

        async def is_listening() -> bool:
            await say("ready")
            return "ready" in heard

        await until(is_listening, what="the listener to hear")
        async with plane.database.connection() as connection:
            quiet = "SELECT tayho.enqueue(31337, 'test', 'kind', 'automation', 'quiet', '{}', wake => false)"
            await connection.fetch(quiet)
            for _ in range(2):
                await connection.fetch("SELECT tayho.enqueue(31337, 'test', 'kind', 'automation', 'loud', '{}')")
        await say("end")
        await until(lambda: "end" in heard, what="the end to be heard of")
        tasks.cancel_scope.cancel()
    assert [text for text in heard if text != "ready"] == ["tayho_outbox", "end"]
