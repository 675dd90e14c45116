"""What an end on the chain rests on is kept with it, whole, bounded, and only as long as the policy says (RPC-12)."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
import trio
import trio.testing
from attrs import evolve
from structlog.testing import capture_logs

from rpc import evidence, schemas
from rpc.ballots import Agreed, Vote
from rpc.contests import BURST_MAX, REFILL_SECONDS, Contests
from rpc.errors import EndpointFault, NoQuorum, Transport
from rpc.evidence import Evidence
from rpc.receipt_checks import Checked
from rpc.truth import Sight
from rpc.values import Receipt
from storage.database import Database
from storage.errors import Refused, StorageError
from tayho.transactions.evidence import PRUNE_PAGE, PRUNE_SECONDS, EvidenceKeeper, evidence_of_job
from tayho.transactions.evidence_rules import DETAIL_CHARACTERS_MAX, final_detail
from tests.rpc import examples
from tests.transactions.conftest import Engine
from tests.transactions.test_liars import LIES, forging, mined, reconciler, three
from tests.transactions.test_proofs import everywhere

DAYS = timedelta(days=1)


async def rows(database: Database, what: str = "kind = 'final'") -> list[Any]:
    async with database.connection() as connection:
        return list(await connection.fetch(f"SELECT * FROM transactions.evidence WHERE {what} ORDER BY evidence_id"))


async def test_a_decision_is_kept_with_what_it_rests_on(engine: Engine) -> None:
    """Goal: afterwards one can tell who said what. Method: two jobs end in one look at three voters, one of whom lies
    about one receipt: one row names head, blocks, voters, what each told and how long it took, and who proved it; the
    next look ends nothing and leaves no row."""
    (one, receipt), (other, _) = await mined(engine, "one"), await mined(engine, "other")

    def lie(call: Any, answer: Any) -> Any:
        of_one = call.method == "eth_getTransactionReceipt" and call.params[0] == f"0x{receipt.transaction_hash.hex()}"
        return forging(Receipt, "status")(call, answer) if of_one else answer

    looking = reconciler(engine, *three(engine, lie))
    await looking.tick()
    await looking.tick()
    database = engine.plane.database
    (row,) = await rows(database)
    assert len(set(row["lineage_ids"])) == 2
    assert row["head_block_number"] > receipt.block_number
    assert row["detail"]["voters"] == ["liar", "one", "two"]
    assert row["detail"]["needed"] == 2
    decisions = {each["tx_hash"]: each for each in row["detail"]["decisions"]}
    decision = decisions[f"0x{receipt.transaction_hash.hex()}"]
    assert decision["block_hash"] == f"0x{receipt.block_hash.hex()}"
    assert json.loads(decision["answer"])["status"] == "0x1"
    assert decision["proven_by"] == "liar"
    told = decision["told"]
    assert told["liar"]["agrees"] is False
    assert json.loads(told["liar"]["answer"])["status"] == "0x2"
    assert told["one"]["agrees"] is True
    assert told["one"]["seconds"] >= 0
    for attempt in (one, other):
        (record,) = await evidence_of_job(database, attempt.job_id)
        assert (record.evidence_id, record.head_hash) == (row["evidence_id"], row["head_hash"])
    assert await evidence_of_job(database, UUID(int=7)) == []


async def test_what_was_contested_is_kept_beside(engine: Engine) -> None:
    """Goal: a lie is on record though nothing ended by it. Method: two of three forge the same receipt, and the block
    refutes it, whether or not the third was heard before them; then all three differ, and the tick ends with that."""
    await mined(engine, "refuted")
    await reconciler(engine, *three(engine, everywhere("status"), everywhere("status"))).tick()
    assert "refuted" in {row["kind"] for row in await rows(engine.plane.database, "kind <> 'final'")}
    await mined(engine, "contested")
    with pytest.raises(NoQuorum):
        await reconciler(engine, *three(engine, everywhere("status"), everywhere("gas_used"))).tick()
    kept = await rows(engine.plane.database, "kind <> 'final'")
    assert {row["kind"] for row in kept} == {"contested", "refuted"}
    refuted = [row["detail"] for row in kept if row["kind"] == "refuted"]
    assert {voter for detail in refuted for voter in detail["told"]} >= {"liar", "accomplice"}
    assert all(detail["subject"].startswith("block 0x") for detail in refuted)
    assert await rows(engine.plane.database) == []


async def test_evidence_cannot_be_rewritten(engine: Engine) -> None:
    """Goal: append-only, against its owner too. Method: change, delete, truncate; delete under the operation without
    days, with fewer than a week, and of what is younger than the days; then of what is older. And rows of a wrong
    shape or size."""
    await mined(engine, "kept")
    await reconciler(engine, *three(engine)).tick()
    database = engine.plane.database
    old = datetime.now(UTC) - 8 * DAYS

    async def refused(*statements: str) -> None:
        with pytest.raises(StorageError):
            async with database.transaction() as tx:
                for statement in statements:
                    await tx.execute(statement)

    operation = "SET LOCAL tayho.operation = 'prune_evidence'"
    delete = "DELETE FROM transactions.evidence"
    await refused("UPDATE transactions.evidence SET detail = '{}'")
    await refused("UPDATE transactions.evidence SET decided_at = now() - interval '1 year'")
    await refused("TRUNCATE transactions.evidence")
    await refused(delete)
    await refused(operation, delete)
    await refused(operation, "SET LOCAL tayho.evidence_days = ''", delete)
    for days in (-1, 0, 7, 90):
        await refused(operation, f"SET LOCAL tayho.evidence_days = '{days}'", delete)
    await refused("SET LOCAL tayho.operation = 'archive'", "SET LOCAL tayho.evidence_days = '90'", delete)
    shape = "INSERT INTO transactions.evidence (chain_id, environment, role, decided_by, kind, detail"
    await refused(f"{shape}) VALUES (1, 'e', 'r', 'p', 'final', '{{}}')")
    await refused(f"{shape}, lineage_ids) VALUES (1, 'e', 'r', 'p', 'contested', '{{}}', ARRAY[gen_random_uuid()])")
    await refused(f"{shape}) VALUES (1, 'e', 'r', 'p', 'contested', to_jsonb(repeat('x', 5000000)))")
    (row,) = await rows(database)
    async with database.transaction() as tx:
        await tx.execute(f"{shape}, decided_at) VALUES (1, 'e', 'r', 'p', 'contested', '{{}}', $1)", old)
    await refused(operation, "SET LOCAL tayho.evidence_days = '9'", f"{delete} WHERE environment = 'e'")
    async with database.transaction() as tx:
        await tx.execute(operation)
        await tx.execute("SET LOCAL tayho.evidence_days = '7'")
        await tx.execute(f"{delete} WHERE environment = 'e'")
    assert await rows(database, "true") == [row]


async def test_the_policy_lets_go_of_what_is_old_and_of_nothing_else(engine: Engine) -> None:
    """Goal: bounded by age. Method: rows of one pool on both sides of the limit, more old ones than a page, and an old
    one of another pool; turns until nothing is left to do; then with no policy, which keeps everything."""
    database, settings = engine.plane.database, evolve(engine.settings, evidence_retention_days=30)

    async def plant(role: str, age_days: float, count: int) -> None:
        async with database.connection() as connection:
            await connection.execute(
                "INSERT INTO transactions.evidence (chain_id, environment, role, decided_by, kind, detail, decided_at)"
                " SELECT $1, $2, $3, 'p', 'contested', '{}', now() - make_interval(secs => $4)"
                " FROM generate_series(1, $5)",
                settings.chain_id,
                settings.environment,
                role,
                age_days * 86_400,
                count,
            )

    await plant(settings.role, 31, PRUNE_PAGE + 1)
    await plant(settings.role, 29.9, 3)
    await plant("another", 31, 2)
    truth = engine.reconciler._truth  # pyright: ignore[reportPrivateUsage]
    await EvidenceKeeper(database, truth, evolve(settings, evidence_retention_days=0)).turn()
    assert len(await rows(database, "true")) == PRUNE_PAGE + 6
    keeper = EvidenceKeeper(database, truth, settings)
    with capture_logs() as lines:
        for _ in range(4):
            await keeper.turn()
    assert [line["rows"] for line in lines] == [PRUNE_PAGE, 1]
    assert [row["role"] for row in await rows(database, "true")] == [settings.role] * 3 + ["another"] * 2
    assert PRUNE_SECONDS > 60


def contest(number: int) -> Evidence:
    return Evidence(
        "eth_chainId", str(number), "agreed", datetime.now(UTC), (evidence.Testimony("liar", "1", None, 0.1, True),)
    )


async def test_a_liar_cannot_fill_the_disk(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: so many contests are kept and the rest are counted. Method: a thousand at once; a day of one a second,
    written down as they come; what was not written down stays first in line."""
    del autojump_clock
    contests = Contests()
    for number in range(1_000):
        contests.note(contest(number))
    assert [one.subject for one in contests.waiting] == [str(number) for number in range(BURST_MAX)]
    assert contests.dropped == 1_000 - BURST_MAX
    contests.written(5, contests.dropped)
    assert (contests.waiting[0].subject, contests.dropped) == ("5", 0)
    written = 0
    for number in range(86_400):
        await trio.sleep(1)
        contests.note(contest(number))
        written += len(contests.waiting)
        contests.written(len(contests.waiting), contests.dropped)
    assert written <= BURST_MAX + 86_400 / REFILL_SECONDS + 1


def test_one_decision_is_bounded_whatever_was_told() -> None:
    """Goal: the row of a look stays far below what the table takes. Method: 500 lineages, five voters of long names,
    each with an answer of thousands of characters or a long error, proofs that failed for long reasons."""
    log = schemas.log(examples.log(data="0x" + "11" * 3_000))
    receipt = evolve(schemas.receipt(examples.receipt()), logs=(log,) * 20)
    voters = [f"https://{name * 60}.example:8545" for name in "abcde"]
    votes = (
        *(Vote(voter, receipt, 1 / 3) for voter in voters[:3]),
        Vote(voters[3], evolve(receipt, status=0), 0.1),
        Vote(voters[4], EndpointFault(voters[4], Transport("x" * 9_000)), 9.9),
    )
    agreed: Agreed[Receipt | None] = Agreed(receipt, votes, (voters[3],))
    receipts = [evolve(receipt, transaction_hash=number.to_bytes(32, "big")) for number in range(500)]
    checked = Checked(reasons=["because " * 1_000] * 500)
    sight = Sight(
        head=schemas.header(examples.block()),
        canonical_hashes={},
        receipts={},
        nonces={},
        final_nonces={},
        pending_nonces={},
        balances_wei={},
        failures=(),
        verdicts={each.transaction_hash: agreed for each in receipts},
        checked=checked,
    )
    for count in (1, 40, 500):
        ended = {UUID(int=number + 1): receipts[number] for number in range(count)}
        detail = final_detail(sight, voters, 3, ended)
        assert len(json.dumps(detail)) < 1.2 * DETAIL_CHARACTERS_MAX
        assert len(detail["decisions"]) == count
        assert set(detail["decisions"][0]["told"]) == set(voters)


@pytest.mark.parametrize("lie", ["receipt status", "no receipt"])
async def test_nothing_ends_without_its_evidence(engine: Engine, lie: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: both are there or neither. Method: the row of evidence is refused by the database; the job has not ended,
    and ends at the next look, once."""
    attempt, _ = await mined(engine, "together")
    looking = reconciler(engine, *three(engine, LIES[lie]))
    with monkeypatch.context() as patched:
        patched.setattr("tayho.transactions.evidence.final_detail", lambda *_: "x" * 5_000_000)
        with pytest.raises(Refused):
            await looking.tick()
    assert await engine.plane.state(attempt.job_id) == "confirming"
    await looking.tick()
    assert await engine.plane.state(attempt.job_id) == "completed"
    assert len(await rows(engine.plane.database)) == 1
