"""`tayho tx cancel` and `tayho tx bump`, as processes over a journal."""

from __future__ import annotations

import json
from functools import partial
from uuid import UUID

import pytest

from storage.database import Database
from tests.cli.test_control import CHAIN_ID, ENVIRONMENT, Tayho, _run  # pyright: ignore[reportPrivateUsage]

pytestmark = pytest.mark.services

SIGNER = "'\\x" + "11" * 20 + "'"
TX_HASH = "ab" * 32


@pytest.fixture
def tayho(database_url: str, redis_url: str) -> Tayho:
    """The command, in the environment of this test's database."""
    environment = {
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "CHAIN_ID": str(CHAIN_ID),
        "ENVIRONMENT": ENVIRONMENT,
        "RPC_URL": "http://127.0.0.1:9",
    }
    return partial(_run, environment)


async def _journal(database: Database) -> UUID:
    """A lane with one lineage that is out, without any process that holds a key."""
    async with database.transaction() as tx:
        await tx.execute(f"INSERT INTO transactions.pools VALUES ({CHAIN_ID}, '{ENVIRONMENT}', 'automation')")
        await tx.execute(
            "INSERT INTO transactions.lanes (chain_id, signer, environment, role, first_nonce, next_nonce)"
            f" VALUES ({CHAIN_ID}, {SIGNER}, '{ENVIRONMENT}', 'automation', 0, 1)"
        )
        lineage_id = await tx.fetchval(
            "INSERT INTO transactions.lineages (lineage_id, purpose, job_id, chain_id, signer, nonce, call_hash,"
            " environment, role, to_address, value_wei, call_data, state) VALUES"
            f" (gen_random_uuid(), 'call', gen_random_uuid(), {CHAIN_ID}, {SIGNER}, 0, decode(repeat('22', 32), 'hex'),"
            f" '{ENVIRONMENT}', 'automation', {SIGNER}, 0, '', 'allocated') RETURNING lineage_id"
        )
        await tx.execute("UPDATE transactions.lineages SET state = 'signed'")
        await tx.execute(
            "INSERT INTO transactions.members (tx_hash, lineage_id, chain_id, signer, nonce, call_hash, member_number,"
            " gas_limit, max_fee_per_gas_wei, max_priority_fee_per_gas_wei, key_id, cipher_nonce, ciphertext, state)"
            f" SELECT '\\x{TX_HASH}', lineage_id, chain_id, signer, nonce, call_hash, 1, 21000, 2, 1, 'k',"
            " decode(repeat('00', 12), 'hex'), decode(repeat('00', 17), 'hex'), 'signed' FROM transactions.lineages"
        )
    return lineage_id


async def _requests(database: Database) -> list[tuple[str, dict[str, str]]]:
    async with database.connection() as connection:
        rows = await connection.fetch("SELECT kind, detail FROM transactions.events ORDER BY event_id")
    return [(row["kind"], row["detail"]) for row in rows]


async def test_a_wish_is_recorded_once_with_who_and_why(database: Database, tayho: Tayho) -> None:
    """Goal: an operator's act is a row that says who and why, and asking again is harmless. Method: without --yes
    nothing; then by the hash, by the id, and a bump; one event a wish."""
    lineage_id = await _journal(database)
    unsure = tayho("tx", "cancel", f"0x{TX_HASH}")
    assert (unsure.returncode, await _requests(database)) == (1, [])
    assert "add --yes" in unsure.stderr
    first = tayho("tx", "cancel", f"0x{TX_HASH}", "--reason", "a mistake", "--yes", "--json")
    assert first.returncode == 0, first.stderr
    told = json.loads(first.stdout)
    assert (told["act"], told["lineage_id"], told["nonce"], told["is_new"]) == ("cancel", str(lineage_id), 0, True)
    again = tayho("tx", "cancel", str(lineage_id), "--yes")
    assert "whichever of its transactions is mined decides (the wish stood already)" in again.stdout
    bumped = tayho("tx", "bump", str(lineage_id), "--actor", "bob", "--yes")
    assert bumped.returncode == 0, bumped.stderr
    assert await _requests(database) == [
        ("cancel_requested", {"actor": "ada", "reason": "a mistake"}),
        ("bump_requested", {"actor": "bob", "reason": ""}),
    ]


async def test_what_cannot_be_is_refused_in_one_line(database: Database, tayho: Tayho) -> None:
    """Goal: a refusal tells what is so. Method: a name that is none, one that nobody knows, and one under a block."""
    lineage_id = await _journal(database)
    assert tayho("tx", "cancel", "0x12", "--yes").returncode == 2
    unknown = tayho("tx", "bump", "0x" + "cd" * 32, "--yes")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert "is no lineage, no job with one and no transaction" in unknown.stderr
    async with database.connection() as connection:
        await connection.execute("UPDATE transactions.lineages SET included_block_number = 7")
    late = tayho("tx", "cancel", str(lineage_id), "--yes")
    assert late.returncode == 1
    assert "mined in block 7" in late.stderr
    assert await _requests(database) == []
