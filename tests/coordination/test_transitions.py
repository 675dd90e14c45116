"""The database refuses every change of state that the table does not list (DLV-7, ARC-9)."""

from __future__ import annotations

import pytest

from storage.database import Connection
from storage.errors import Refused
from tayho.kernel.transitions import JOB, NEW, TABLES
from tests.coordination.conftest import Plane


async def test_the_database_and_the_code_list_the_same_arrows(plane: Plane) -> None:
    """Goal: one transition table. Method: compare `tayho.transitions` with the kernel's, row by row."""
    async with plane.database.connection() as connection:
        rows = await connection.fetch("SELECT table_name, from_state, to_state, operation FROM tayho.transitions")
    recorded = {(row["table_name"], row["from_state"], row["to_state"], row["operation"]) for row in rows}
    declared = {
        (table.name, arrow.source, arrow.target, arrow.operation) for table in TABLES.values() for arrow in table.arrows
    }
    assert recorded == declared


@pytest.mark.parametrize("source", sorted(JOB.states))
async def test_a_job_takes_exactly_the_listed_arrows(plane: Plane, source: str) -> None:
    """Goal: the trigger, not the code, refuses. Method: put a job into each state behind the trigger's back, then try
    every other state from there; plain, and under the operation that the arrow names."""
    await plane.enqueue()
    await plane.worker()
    targets = sorted(JOB.states - {source})
    for target in targets:
        for operation in (None, "replay", "revive", "restore", "release"):
            taken = await _try(plane, source, target, operation)
            listed = JOB.allows(source, target, operation)
            assert taken == listed, (source, target, operation)


async def test_a_row_is_born_only_in_a_listed_state(plane: Plane) -> None:
    """Goal: no job appears as completed. Method: insert one in each state."""
    for state in sorted(JOB.states):
        born = await _born(plane, state)
        assert born == JOB.allows(NEW, state), state


async def test_an_ended_job_cannot_be_changed_in_any_column(plane: Plane) -> None:
    """Goal: terminal rows are immutable. Method: change a harmless column of a job in each terminal state."""
    await plane.enqueue()
    for state in sorted(JOB.terminal):
        with pytest.raises(Refused) as refused:
            async with plane.database.transaction() as tx:
                await _force(tx, state)
                await tx.execute("UPDATE coordination.jobs SET result = '1'")
        assert refused.value.constraint == "jobs_terminal_immutable"


@pytest.mark.parametrize(
    "change",
    [
        "idempotency_key = 'other'",
        "request_digest = sha256('x')",
        "kind = 'other'",
        "chain_id = 1",
        "attempt_number = -1",
        "generation = 0",
    ],
)
async def test_what_identifies_and_fences_a_job_never_goes_back(plane: Plane, change: str) -> None:
    """Goal: key, request, kind, attempt number and generation are safe from a wrong statement. Method: try each."""
    await plane.enqueue()
    with pytest.raises(Refused):
        async with plane.database.connection() as connection:
            await connection.execute(f"UPDATE coordination.jobs SET {change}")


async def _try(plane: Plane, source: str, target: str, operation: str | None) -> bool:
    class Undo(Exception):
        pass

    try:
        async with plane.database.transaction() as tx:
            await _force(tx, source)
            if operation is not None:
                await tx.execute(f"SET LOCAL tayho.operation = '{operation}'")
            await tx.execute(f"UPDATE coordination.jobs SET {_columns(target)}")
            raise Undo
    except Undo:
        return True
    except Refused as error:
        assert error.sqlstate.startswith("TY"), error
        return False


async def _born(plane: Plane, state: str) -> bool:
    try:
        async with plane.database.transaction() as tx:
            await tx.execute(
                "INSERT INTO coordination.jobs (job_id, chain_id, environment, idempotency_key, request_digest, role,"
                " kind, request, priority, run_at, state) VALUES (gen_random_uuid(), 1, 'e', gen_random_uuid()::text,"
                f" sha256('x'), 'role', 'kind', '{{}}', 1, now(), '{state}')"
            )
    except Refused:
        return False
    return True


async def _force(tx: Connection, state: str) -> None:
    """Put the one job into a state, past the transition triggers and within all other constraints."""
    await tx.execute("SET LOCAL session_replication_role = 'replica'")
    await tx.execute(f"UPDATE coordination.jobs SET {_columns(state)}")
    await tx.execute("SET LOCAL session_replication_role = 'origin'")


def _columns(state: str) -> str:
    """The assignments with which a job in that state satisfies the table's checks."""
    is_processing = state == "processing"
    worker = "(SELECT worker_id FROM coordination.workers LIMIT 1)" if is_processing else "NULL"
    return (
        f"state = '{state}', attempt_token = {repr('t' * 32) if is_processing else 'NULL'}, "
        f"attempt_worker_id = {worker}, has_live_lineage = {'true' if state == 'confirming' else 'false'}, "
        f"ended_at = {'now()' if state in JOB.terminal else 'NULL'}, "
        f"batch_job_id = {'gen_random_uuid()' if state == 'batched' else 'NULL'}"
    )
