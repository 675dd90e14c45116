"""docs/handlers.md says what becomes of a handler: its example is a kind, its table is what happens."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import cast

import pytest
import trio

from nursery.drain import Drain
from rpc import errors as rpc_errors
from rpc.errors import ChainMismatch, DeadlinePassed, EndpointFault, RpcRefused, WrongChain
from rpc.reads import Reads
from storage import errors as storage_errors
from tayho.coordination import outbox, running
from tayho.coordination.types import Handler, JobRecord, NewJob
from tayho.kernel.ids import new_id
from tayho.kernel.jobs import Attempt, Completed, Job, NotActionable, Outcome, RequestRefused
from tayho.kinds import OffChainKind
from tests.coordination.conftest import ROLE, Plane, plane  # noqa: F401 - a fixture
from tests.coordination.workers_at_work import worker_at_work
from tests.docs.markdown import blocks, names_in, table_of, text_of
from tests.waiting import until

DOCUMENT = "docs/handlers.md"


class Shop:
    """The outside system of the example."""

    def __init__(self) -> None:
        self.notified: dict[int, str] = {}

    async def is_notified(self, invoice: int) -> bool:
        return invoice in self.notified

    async def notify(self, invoice: int, *, idempotency_key: str) -> str:
        self.notified[invoice] = idempotency_key
        return f"receipt {invoice}"


async def test_the_example_is_a_kind_that_is_safe_to_repeat() -> None:
    """Goal: what is copied keeps the contract. Method: run it twice, and with a request that names nothing."""
    defined: dict[str, object] = {"Shop": Shop}
    (block,) = blocks(text_of(DOCUMENT), "python")
    exec(compile(block, DOCUMENT, "exec"), defined)  # noqa: S102 - our own document
    shop = Shop()
    kind = cast("Callable[[Shop], OffChainKind]", defined["InvoiceNotify"])(shop)
    assert isinstance(kind, OffChainKind)

    def job(**request: object) -> Job:
        now = datetime.now(UTC)
        return Job(new_id(), 1, "live", kind.role, kind.name, "invoice-7", request, 1, False, now)  # pyright: ignore[reportArgumentType]

    reads = cast("Reads", None)
    assert await kind.run(job(invoice=7), reads) == Completed({"receipt": "receipt 7"})
    assert await kind.run(job(invoice=7), reads) == NotActionable("notified already")
    assert shop.notified == {7: "live:invoice-7"}
    with pytest.raises(RequestRefused):
        await kind.run(job(), reads)


_NO_ANSWER = EndpointFault("node", DeadlinePassed(1, "body"))
# What the words of each row's first cell do, in the order of the table.
ROWS: list[list[object]] = [
    [Completed()],
    [NotActionable("no")],
    [RequestRefused("no")],
    [
        getattr(storage_errors, name)("x")
        for name in ("StoreUnavailable", "SerializationLost", "CommitUnknown", "ReplyLost")
    ],
    [_NO_ANSWER],
    [RpcRefused(-32005, "limit exceeded")],
    [RpcRefused(-32602, "invalid params"), WrongChain("node", ChainMismatch(1, 2))],
    [ValueError("a bug"), ExceptionGroup("in a nursery", [RequestRefused("no")]), TimeoutError()],
    [None, Completed("\x00"), Completed("x" * 70_000)],
]


def _doing(what: object) -> Handler:
    async def handle(job: Job, attempt: Attempt) -> Outcome:
        await trio.lowlevel.checkpoint()
        if isinstance(what, Exception):
            raise what
        return cast("Outcome", what)

    return handle


async def test_every_row_of_the_table_happens(plane: Plane, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """Goal: who reads the table knows how a handler ends. Method: a kind for each row and each word in it; after the
    first attempt of each, the database says what the row says. What comes again comes late here."""
    monkeypatch.setattr(outbox, "BACKOFF_MILLISECONDS", 30_000)
    monkeypatch.setattr(running, "OUTAGE_DELAY_SECONDS", 30)
    table = table_of(text_of(DOCUMENT), "the handler")
    assert len(table) == len(ROWS)
    handlers = {f"{row}-{number}": _doing(what) for row, whats in enumerate(ROWS) for number, what in enumerate(whats)}
    jobs = [NewJob(kind, ROLE, kind, {}) for kind in handlers]
    enqueued = await plane.coordination.enqueue_many(jobs)
    records: dict[str, JobRecord] = {}

    async def all_have_ended_once() -> bool:
        for one in enqueued:
            record = await plane.coordination.inspect(one.job_id)
            assert record is not None
            records[one.idempotency_key] = record
        # An inspection is two reads: the attempt's end may be younger than the job that was read before it.
        return all(
            record.attempts and record.attempts[0].ended_at and record.state != "processing"
            for record in records.values()
        )

    async with worker_at_work(plane, database_url, handlers, Drain(seconds=5), publishes=True):
        await until(all_have_ended_once, seconds=15, what="each first attempt to end")
    for key, record in records.items():
        words, attempt, job, spent = table[int(key.partition("-")[0])]
        told = (names_in(attempt)[0], names_in(job)[0], spent == "yes")
        assert (record.attempts[0].state, record.state, record.attempts_spent == 1) == told, words


def test_every_error_that_the_table_names_is_one_that_a_handler_can_import() -> None:
    """Goal: no name of the table is made up. Method: look each up among the outcomes and errors."""
    names = {name for cell, *_ in table_of(text_of(DOCUMENT), "the handler") for name in names_in(cell)}
    known = {*dir(storage_errors), *dir(rpc_errors), "Completed", "NotActionable", "RequestRefused", "Exception"}
    assert names <= known, names - known
