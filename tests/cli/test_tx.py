"""The commands that look at transactions, as processes: explain, inspect, ambiguous, lanes; and one line in jobs."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from typing import Any, TypeAlias

import pytest
import trio

from rpc.errors import DeadlinePassed, EndpointFault
from rpc.reads import Call as Question
from tayho.kernel.jobs import Attempt, Ended
from tayho.transactions.explaining.rules import explain_lineage
from tayho.transactions.explaining.types import EngineRules, TxCause
from tayho.transactions.module import LineageReader
from tayho.transactions.types import Allocation, Lineage
from tests.cli.test_control import _run
from tests.coordination.conftest import CHAIN_ID, ENVIRONMENT
from tests.services.chain import LocalChain
from tests.transactions.conftest import Engine, any_call, chain, engine, plane
from tests.transactions.test_executor import Kind, _set_automine
from tests.transactions.test_holds import _answering, _error_of

__all__ = ["chain", "engine", "plane"]

pytestmark = pytest.mark.services

Tayho: TypeAlias = partial[Any]
RULES = EngineRules(
    confirmations=2, reorg_lookback_blocks=64, stuck_seconds=90, replacements_max=8, reconcile_seconds=5
)


@pytest.fixture
def tayho(database_url: str, redis_url: str, chain: LocalChain) -> Tayho:
    """The command in the engine's world, one of its two endpoints down. No key is in its environment."""
    environment = {
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "CHAIN_ID": str(CHAIN_ID),
        "ENVIRONMENT": ENVIRONMENT,
        "RPC_URL": chain.url,
        "RPC_READ_URLS": f"{chain.url},http://localhost:9",
        "TX_CONFIRMATIONS": "2",
    }
    return partial(_run, environment)


async def _sent(engine: Engine) -> tuple[Attempt, str, str]:
    """A job whose transaction is in the pool of a node that makes no blocks; its lineage and its hash."""
    (attempt,) = await engine.attempts(1)
    assert await engine.executor.execute(Kind(any_call()), await engine.job(attempt), attempt) == Ended()
    async with engine.plane.database.connection() as connection:
        row = await connection.fetchrow("SELECT lineage_id, tx_hash FROM transactions.members")
    assert row is not None
    return attempt, str(row["lineage_id"]), f"0x{row['tx_hash'].hex()}"


async def _told(tayho: Tayho, *arguments: str) -> Any:
    """What the command prints as JSON, one object."""
    ended = await trio.to_thread.run_sync(partial(tayho, *arguments, "--json"))
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


async def test_a_transaction_is_explained_from_the_pool_to_its_end(engine: Engine, tayho: Tayho) -> None:
    """Goal: "why is it stuck" by any of its names, with every node's answer, at each stage. Method: a transaction in a
    pool without blocks, then in a block, then final; by its job, its lineage and its hash; one endpoint is down."""
    await _set_automine(engine, on=False)
    try:
        attempt, lineage_id, tx_hash = await _sent(engine)
        for name in (str(attempt.job_id), lineage_id, tx_hash, tx_hash.removeprefix("0x")):
            told = await _told(tayho, "tx", "explain", name)
            assert (told["lineage_id"], [one["code"] for one in told["causes"]]) == (lineage_id, ["in_mempool"])
        one, down = told["facts"]["nodes"]
        assert [seen["is_known"] for seen in one["members"]] == [True]
        assert "localhost:9" in down["endpoint"]
        assert down["problem"]
        said = await trio.to_thread.run_sync(tayho, "tx", "explain", tx_hash)
        assert said.stdout.startswith("broadcast: It waits for a block: 1 of 1 nodes have it pending")
        assert tx_hash in said.stdout, "every member, with its whole hash"
        assert "pending" in said.stdout
        job = await _told(tayho, "jobs", "explain", str(attempt.job_id))
        assert (job["state"], job["transaction"][:22]) == ("confirming", "It waits for a block: ")
        await engine.node.ask(Question("anvil_mine", ("0x1",), lambda _: None, is_write=True))
        told = await _told(tayho, "tx", "explain", tx_hash)
        assert told["causes"][0]["code"] == "waiting_for_confirmations", "the node's word, before any reconciler's"
    finally:
        await _set_automine(engine, on=True)
    await engine.tick_and_mine(3)
    told = await _told(tayho, "tx", "explain", tx_hash)
    assert (told["state"], told["causes"][0]["code"]) == ("mined", "final")


async def test_inspect_shows_everything_but_the_bytes(engine: Engine, tayho: Tayho) -> None:
    """Goal: TX-12. Method: one that ended; its members, broadcasts with who and what, receipt and event stand there;
    neither the sealed nor the open bytes do, in either form; a job without a transaction is exit 1."""
    attempt, _, tx_hash = await _sent(engine)
    await engine.tick_and_mine(3)
    whole = await _told(tayho, "tx", "inspect", str(attempt.job_id))
    assert [one["tx_hash"] for one in whole["members"]] == [tx_hash]
    assert [(one["reason"], one["endpoint"], one["sent_by"]) for one in whole["broadcasts"]] == [
        ("accepted", "node", "unnamed")
    ]
    assert [(one["tx_hash"], one["succeeded"], one["orphaned_at"]) for one in whole["receipts"]] == [
        (tx_hash, True, None)
    ]
    assert [one["kind"] for one in whole["events"]] == ["mined"]
    async with engine.plane.database.connection() as connection:
        sealed = await connection.fetchval("SELECT ciphertext FROM transactions.members")
    shown = await trio.to_thread.run_sync(tayho, "tx", "inspect", tx_hash)
    assert "Broadcasts" in shown.stdout
    assert "Receipts" in shown.stdout
    for text in (json.dumps(whole), shown.stdout):
        assert sealed.hex() not in text
        assert "ciphertext" not in text
    (job_id,) = [await engine.plane.enqueue("another")]
    for command in ("inspect", "explain"):
        none = await trio.to_thread.run_sync(tayho, "tx", command, str(job_id))
        assert (none.returncode, none.stdout) == (1, "")
        assert "there is no transaction of" in none.stderr
        bad = await trio.to_thread.run_sync(tayho, "tx", command, "0x12")
        assert bad.returncode == 2


async def test_what_is_in_doubt_or_held_is_listed_and_the_lanes_are_shown(engine: Engine, tayho: Tayho) -> None:
    """Goal: `tx ambiguous` and `lanes`. Method: one transaction whose answer was lost and one that was refused for
    funds are listed, one that was taken is not; the lane that was closed shows so with its reason."""
    attempts = await engine.attempts(3)
    errors = (EndpointFault("node", DeadlinePassed(1, "body")), _error_of("insufficient_funds"), None)
    await _set_automine(engine, on=False)
    try:
        for attempt, error in zip(attempts, errors, strict=True):
            _answering(engine, error)
            assert await engine.executor.execute(Kind(any_call()), await engine.job(attempt), attempt) == Ended()
        ended = await trio.to_thread.run_sync(tayho, "tx", "ambiguous", "--json")
        lines = [json.loads(line) for line in ended.stdout.splitlines()]
        assert [(line["job_id"], line["member_state"], line["hold"], line["last_answer"]) for line in lines] == [
            (str(attempts[0].job_id), "ambiguous", None, "ambiguous"),
            (str(attempts[1].job_id), "signed", "underfunded", "insufficient_funds"),
        ]
        table = await trio.to_thread.run_sync(tayho, "tx", "ambiguous", "--role", "automation")
        assert table.returncode == 0
        assert "underfunded" in table.stdout
        none = await trio.to_thread.run_sync(tayho, "tx", "ambiguous", "--role", "payouts", "--json")
        assert (none.returncode, none.stdout) == (0, "")
        ended = await trio.to_thread.run_sync(tayho, "lanes", "--json")
        lanes = [json.loads(line) for line in ended.stdout.splitlines()]
        assert sorted((lane["state"], lane["in_flight"], lane["held"]) for lane in lanes) == [
            ("open", 2, 0),
            ("underfunded", 1, 1),
        ]
        assert all(lane["oldest_open_seconds"] >= 0 for lane in lanes)
        table = await trio.to_thread.run_sync(tayho, "lanes")
        assert "insufficient funds" in table.stdout
        told = await _told(tayho, "tx", "explain", str(attempts[1].job_id))
        assert [one["code"] for one in told["causes"]][:1] == ["underfunded"]
        assert told["causes"][-1]["code"] == "lane_held"
    finally:
        await _set_automine(engine, on=True)


async def test_the_lanes_are_shown_again_and_again(engine: Engine, tayho: Tayho) -> None:
    """Goal: `lanes --watch`. Method: read its lines while it runs, until they show what was allocated meanwhile."""
    command = [sys.executable, "-m", "tayho", "lanes", "--watch", "--seconds", "0.5", "--json"]
    environment = {"PATH": "/usr/bin:/bin", **tayho.args[0]}
    watching = await trio.lowlevel.open_process(command, env=environment, stdout=subprocess.PIPE)
    seen = b""

    async def shows(in_flight: int) -> None:
        nonlocal seen
        assert watching.stdout is not None
        while f'"in_flight": {in_flight}'.encode() not in seen:
            told = await watching.stdout.receive_some()
            assert told, "it has ended by itself"
            seen += told

    try:
        with trio.fail_after(60):
            await shows(0)
            assert b'"in_flight": 1' not in seen
            (attempt,) = await engine.attempts(1)
            await engine.journal.allocate_many([Allocation(attempt, any_call())])
            await shows(1)
    finally:
        watching.kill()


async def test_an_allocation_and_another_environment(engine: Engine) -> None:
    """Goal: what is not signed is explained as well, and what is another environment's is not seen. Method: an
    allocation without an attempt; a reader of another environment."""
    (attempt,) = await engine.attempts(1)
    (lineage,) = await engine.journal.allocate_many([Allocation(attempt, any_call())])
    assert isinstance(lineage, Lineage)
    reader = LineageReader(engine.plane.database, CHAIN_ID, ENVIRONMENT)
    assert await reader.find(attempt.job_id) == [lineage.lineage_id]
    facts = await reader.facts(lineage.lineage_id, RULES)
    assert facts is not None
    assert explain_lineage(facts).causes[0].code is TxCause.ALLOCATED
    elsewhere = LineageReader(engine.plane.database, CHAIN_ID, "elsewhere")
    assert await elsewhere.find(attempt.job_id) == []
    assert await elsewhere.lanes() == []
