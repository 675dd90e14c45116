"""docs/producers.md can be copied: its programs run, its SQL runs, its rights suffice, its tables are complete."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import CompletedProcess
from uuid import UUID

import pytest
import trio

import tayho
from storage.database import Database
from storage.errors import Refused
from tests.docs.markdown import ROOT, blocks, names_in, table_of, text_of

DOCUMENT = "docs/producers.md"
PLACE = {"CHAIN_ID": "31337", "ENVIRONMENT": "live"}
NODE_MODULES = ROOT / "tools" / "node" / "node_modules"
INVOICES = "CREATE TABLE invoices (id bigint PRIMARY KEY)"


async def _jobs(database: Database) -> dict[str, UUID]:
    async with database.connection() as connection:
        rows = await connection.fetch(
            "SELECT idempotency_key, job_id FROM coordination.jobs JOIN coordination.outbox USING (job_id)"
        )
    return {row["idempotency_key"]: row["job_id"] for row in rows}


async def _run(command: list[str], database_url: str, folder: Path) -> CompletedProcess[bytes]:
    environment = {**os.environ, **PLACE, "DATABASE_URL": database_url, "PYTHONPATH": str(ROOT)}
    return await trio.run_process(
        command, env=environment, cwd=folder, check=False, capture_stdout=True, capture_stderr=True
    )


@pytest.mark.services
async def test_the_python_program_runs_as_it_stands(database: Database, database_url: str, tmp_path: Path) -> None:
    """Goal: copy, run, done. Method: run the page's program in a process of its own; its row and its job are there.
    Run again, its own row is there already: it fails, and no second job comes."""
    async with database.connection() as connection:
        await connection.execute(INVOICES)
    (program,) = blocks(text_of(DOCUMENT), "python")
    (tmp_path / "program.py").write_text(program)
    command = [sys.executable, "program.py"]
    first = await _run(command, database_url, tmp_path)
    assert first.returncode == 0, first.stderr
    assert await _jobs(database) == {"invoice-7": UUID(first.stdout.split()[0].decode())}
    assert first.stdout.endswith(b" created\n")
    again = await _run(command, database_url, tmp_path)
    assert b"UniqueViolationError" in again.stderr
    assert list(await _jobs(database)) == ["invoice-7"]


@pytest.mark.services
async def test_the_node_program_runs_as_it_stands(database: Database, database_url: str, tmp_path: Path) -> None:
    """Goal: another language is no second class. Method: run the page's program under Node; then with a request that
    cannot be stored, and with another request under the same key: it tells message and hint, and its row is gone."""
    async with database.connection() as connection:
        await connection.execute("CREATE TABLE shipments (id bigint PRIMARY KEY)")
    (program,) = blocks(text_of(DOCUMENT), "js")
    (tmp_path / "node_modules").symlink_to(NODE_MODULES)
    (tmp_path / "program.mjs").write_text(program)
    first = await _run(["node", "program.mjs"], database_url, tmp_path)
    assert first.returncode == 0, first.stderr
    assert await _jobs(database) == {"shipment-10": UUID(first.stdout.split()[0].decode())}
    assert first.stdout.endswith(b" created\n")
    for changed, said in (("wei: '\\0'", b"a text holds a NUL character"), ("wei: '6'", b"Use another key")):
        other = program.replace("[10]", "[11]").replace("wei: '5'", changed)
        (tmp_path / "program.mjs").write_text(other)
        refused = await _run(["node", "program.mjs"], database_url, tmp_path)
        assert refused.returncode == 2, refused.stderr
        assert said in refused.stderr
    async with database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM shipments") == 1


@asynccontextmanager
async def _without_shop_afterwards(database: Database) -> AsyncIterator[None]:
    """Roles are the whole server's: take away the one that the page makes."""
    try:
        yield
    finally:
        async with database.connection() as connection:
            await connection.execute("DROP OWNED BY shop; DROP ROLE shop")


@pytest.mark.services
async def test_every_sql_block_runs_and_the_granted_rights_suffice(database: Database) -> None:
    """Goal: as above, for SQL. Method: run all blocks in their order on one connection; the jobs that they speak of are
    there. The role of the page then enqueues, repeats itself, meets a conflict, and may do nothing else."""
    async with database.connection() as connection:
        for block in blocks(text_of(DOCUMENT), "sql")[:3]:
            await connection.execute(block)
        async with _without_shop_afterwards(database):
            for block in blocks(text_of(DOCUMENT), "sql")[3:]:
                await connection.execute(block)
            assert list(await _jobs(database)) == ["invoice-8", "invoice-9"]
            await connection.execute("SET ROLE shop")
            call = "SELECT created FROM tayho.enqueue(31337, 'live', 'invoice.pay', 'payouts', 'shop-1', $1)"
            assert [await connection.fetchval(call, "{}") for _ in range(2)] == [True, False]
            for statement, sqlstate in (
                ("SELECT tayho.enqueue(31337, 'live', 'invoice.pay', 'payouts', 'shop-1', '{\"a\": 1}')", "TY010"),
                ("UPDATE coordination.jobs SET priority = 1", "42501"),
                ("DELETE FROM coordination.outbox", "42501"),
                ("INSERT INTO tayho.roles VALUES ('shop')", "42501"),
            ):
                with pytest.raises(Refused) as refused:
                    await connection.execute(statement)
                assert refused.value.sqlstate == sqlstate
            await connection.execute("RESET ROLE")
    assert list(await _jobs(database)) == ["invoice-8", "invoice-9", "shop-1"]


def test_every_argument_is_told() -> None:
    """Goal: nothing can be given that the page is silent about. Method: compare its table with the signature."""
    told = [name for cell, _ in table_of(text_of(DOCUMENT), "argument") for name in names_in(cell)]
    assert sorted(told) == sorted(inspect.signature(tayho.enqueue).parameters)


@pytest.mark.services
async def test_sql_takes_the_same_arguments(database: Database) -> None:
    """Goal: two doors, one set of words. Method: compare the function's parameters with those of Python."""
    async with database.connection() as connection:
        (row,) = await connection.fetch(
            "SELECT proargnames[1:pronargs] AS names FROM pg_proc WHERE oid = 'tayho.enqueue'::regproc"
        )
    renamed = {"idempotency_key": "key"}
    assert {renamed.get(name, name) for name in row["names"]} == {*inspect.signature(tayho.enqueue).parameters} - {"tx"}


def test_every_refusal_is_told() -> None:
    """Goal: who catches what the page lists catches all. Method: compare with the exceptions that `tayho` shows, and
    with the codes that the migration raises."""
    rows = table_of(text_of(DOCUMENT), "in Python")
    shown = {
        name
        for name in tayho.__all__
        if isinstance(value := getattr(tayho, name), type) and issubclass(value, Exception)
    }
    assert {name for cell, *_ in rows for name in names_in(cell)} == shown
    migration = text_of("sql/migrations/0006_enqueue.sql")
    codes = {name for _, cell, *_ in rows for name in names_in(cell)}
    assert codes == {"TY010", "TY011", "TY012"}
    assert all(f"'{code}'" in migration for code in codes)
