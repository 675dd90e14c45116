"""The end of a schedule: the faults stop, two replicas run, and every job comes to an end or to a hold that is seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import trio

from rpc import methods
from tests.invariants import TERMINAL, check_at_rest, effects_of, events_of
from tests.simulation.chain.clockwork import CONFIRMATIONS
from tests.simulation.chain.driver import Driver, Wanted
from tests.simulation.delivery.clockwork import DRAIN_SECONDS

# How long everything may take to come to rest once nothing is broken any more. A machine under load needs most of it.
REST_SECONDS = 90.0
REPLICAS = 2
# A check reads the whole chain of the schedule; more of them would be most of the work.
CHECK_SECONDS = 1.0
# A hold counts as an end only if it lasts: what can go on does so at the next looks.
HELD_SECONDS = 15.0


_JOB = """
SELECT jobs.*, (
    SELECT members.gas_limit FROM transactions.members AS members
    JOIN transactions.lineages AS lineages USING (lineage_id)
    WHERE lineages.job_id = jobs.job_id AND members.state = 'reverted'
    ORDER BY lineages.ended_at DESC
    LIMIT 1
) AS reverted_gas_limit
FROM coordination.jobs AS jobs WHERE jobs.job_id = $1
"""


async def come_to_rest(driver: Driver) -> None:
    """Heal everything, have two healthy replicas run, and judge what came of it."""
    await driver.heal()
    running = [replica for replica in driver.replicas if replica.is_up and not replica.drain.requested]
    # At least one that starts on whatever was left behind.
    healthy = [driver.start_replica("two") for _ in range(max(1, REPLICAS - len(running)))]
    held_since: float | None = None
    check_at = 0.0
    with trio.move_on_after(REST_SECONDS) as patience:
        while (open_jobs := await _open_jobs(driver)) or not await _is_even(driver):
            if trio.current_time() > check_at:
                await driver.check()
                await driver.resolve_halts()
                check_at = trio.current_time() + CHECK_SECONDS
            for replica in healthy:
                assert not replica.ended.is_set(), f"a healthy replica ended: {replica.failure!r}"
            if open_jobs and all(job["is_held"] for job in open_jobs):
                held_since = held_since or trio.current_time()
                if trio.current_time() - held_since > HELD_SECONDS:
                    break
            else:
                held_since = None
            await trio.sleep(0.05)
    if patience.cancelled_caught:
        raise AssertionError(f"I8: not at rest within {REST_SECONDS:g} s:\n{await told(driver)}")
    for job in await _open_jobs(driver):
        driver.done[f"held: {job['why']}"] += 1
    await _judge(driver)
    await _stop(driver)


async def _open_jobs(driver: Driver) -> list[Mapping[str, Any]]:
    """The jobs that have not ended, or whose lineages have not, and whether each is held in sight of an operator."""
    rows = await driver.rows(
        """
        SELECT jobs.job_id, jobs.state, lineages.state AS lineage_state,
            coalesce(
                lineages.hold,
                CASE WHEN lanes.state <> 'open' AND lanes.state_reason IS NOT NULL THEN 'lane ' || lanes.state END,
                (SELECT 'halt ' || min(halts.kind) FROM transactions.halts AS halts WHERE halts.resolved_at IS NULL)
            ) AS why
        FROM coordination.jobs AS jobs
        LEFT JOIN transactions.lineages AS lineages
            ON lineages.job_id = jobs.job_id AND lineages.state IN ('allocated', 'signed', 'broadcast')
        LEFT JOIN transactions.lanes AS lanes
            ON lanes.chain_id = lineages.chain_id AND lanes.signer = lineages.signer
        WHERE jobs.state <> ALL ($1::text[]) OR lineages.lineage_id IS NOT NULL
        UNION ALL
        SELECT NULL, 'filler', lineages.state, lineages.hold
        FROM transactions.lineages AS lineages
        WHERE lineages.purpose = 'filler' AND lineages.state IN ('allocated', 'signed', 'broadcast')
        """,
        list(TERMINAL),
    )
    return [{**dict(row), "is_held": row["why"] is not None} for row in rows]


async def _is_even(driver: Driver) -> bool:
    """Whether every fence is where the chain is: what others used last is noticed a look or two after it."""
    for lane in await driver.rows("SELECT signer, next_nonce FROM transactions.lanes"):
        used = await driver.ground.node.ask(methods.transaction_count(bytes(lane["signer"]), "latest"))
        if used != lane["next_nonce"]:
            return False
    return True


async def _judge(driver: Driver) -> None:
    """Ask the invariants at rest, and every job for an end that it may have."""
    driver.ground.hold_mining()
    await driver.check(whole=True)
    if not await _open_jobs(driver):
        await check_at_rest(driver.database, driver.ground.node, driver.ground.contract, confirmations=CONFIRMATIONS)
    effects = await effects_of(driver.ground.node, driver.ground.contract, [one.job_id for one in driver.wanted])
    events = await events_of(driver.ground.node, driver.ground.contract)
    for wanted in driver.wanted:
        (job,) = await driver.rows(_JOB, wanted.job_id)
        where = f"job {wanted.job_id} of event {wanted.event}: {job['state']}, {job['last_error']}"
        if job["state"] not in TERMINAL:
            assert effects[wanted.job_id] <= 1, f"I3: {where}: {effects[wanted.job_id]}"
        elif wanted.event is None:
            assert effects[wanted.job_id] == (job["state"] == "completed"), f"I3/I9: {where}: {effects[wanted.job_id]}"
        elif job["state"] == "completed":
            assert events[driver.events[wanted.event]] >= 1, f"I9: {where}"
        if job["state"] in TERMINAL and not _may_end_so(driver, wanted, job):
            raise AssertionError(f"{where}: nothing of the schedule explains it\n{await told(driver)}")


def _may_end_so(driver: Driver, wanted: Wanted, job: Mapping[str, Any]) -> bool:
    """Whether what was done explains the end. A job that nobody touched is completed."""
    match job["state"]:
        case "completed":
            return True
        case "not_actionable":
            return wanted.event is not None or driver.has_false_reverts
        case "dead":
            kind = (job["last_error"] or {}).get("type")
            if kind == "RevertedOnChain":
                return wanted.event is not None or (driver.has_other_past and _ran_out_of_gas(job))
            return wanted.was_cancelled or driver.has_foreign
        case _:
            return False


def _ran_out_of_gas(job: Mapping[str, Any]) -> bool:
    """Whether all its gas was used up: the first record of a counter costs more than the buffer on another's estimate,
    and a reorganisation that takes the first one away makes the next one the first."""
    return job["last_error"]["gas_used"] == job["reverted_gas_limit"]


async def _stop(driver: Driver) -> None:
    """Drain every replica; none may have ended by what may end no process."""
    for replica in driver.replicas:
        replica.drain.request("the schedule is over")
    with trio.move_on_after(DRAIN_SECONDS + 10) as patience:
        for replica in driver.replicas:
            await replica.ended.wait()
    assert not patience.cancelled_caught, "OPS-6: a drain did not end in time"
    failures = [replica.failure for replica in driver.replicas if replica.failure is not None]
    if failures:
        raise BaseExceptionGroup("replicas ended by what may end no process", failures)


async def told(driver: Driver) -> str:
    """What has not come to rest, for the one who reads the failure."""
    questions = {
        "jobs": """
            SELECT job_id, state, has_live_lineage, attempts_spent, attempt_number, last_error, due_at - now() AS due
            FROM coordination.jobs LEFT JOIN coordination.outbox USING (job_id) WHERE ended_at IS NULL
            """,
        "attempts": """
            SELECT job_id, attempts.state, count(*), max(left(attempts.detail::text, 300)) AS detail,
                avg(attempts.ended_at - attempts.started_at) AS took
            FROM coordination.attempts JOIN coordination.jobs USING (job_id)
            WHERE jobs.ended_at IS NULL GROUP BY 1, 2
            """,
        "lineages": """
            SELECT lineage_id, purpose, job_id, encode(substr(signer, 1, 4), 'hex') AS signer, nonce, state,
                state_reason, hold, hold_reason, included_block_number, check_at - now() AS due,
                (SELECT jsonb_agg(jsonb_build_object(
                    'n', member_number, 'state', state, 'fee', max_fee_per_gas_wei, 'hash', encode(tx_hash, 'hex')
                ) ORDER BY member_number) FROM transactions.members WHERE members.lineage_id = lineages.lineage_id)
                AS members
            FROM transactions.lineages ORDER BY signer, nonce
            """,
        "lanes": """
            SELECT encode(substr(signer, 1, 4), 'hex') AS signer, state, state_reason, first_nonce, next_nonce,
                latest_nonce, pending_nonce, world
            FROM transactions.lanes
            """,
        "halts": "SELECT kind, evidence, resolution FROM transactions.halts",
        "findings": "SELECT kind, detail FROM transactions.findings",
        "answers": """
            SELECT encode(substr(tx_hash, 1, 4), 'hex') AS tx, answer, reason, detail, sent_by
            FROM transactions.broadcasts ORDER BY broadcast_id DESC LIMIT 12
            """,
    }
    lines: list[str] = []
    for name, sql in questions.items():
        lines += [f"{name}: { {key: str(value) for key, value in row.items()} }" for row in await driver.rows(sql)]
    for signer in await driver.rows("SELECT signer FROM transactions.lanes"):
        account = f"0x{bytes(signer['signer']).hex()}"
        counts = [
            await driver.ground.tell("eth_getTransactionCount", account, block) for block in ("latest", "pending")
        ]
        lines.append(f"chain: {account[:10]} latest and pending {counts}, pool {await driver.ground.pooled()}")
    lines.append(f"chain: head {await driver.ground.head()}")
    lines += [f"{replica.name}: up {replica.is_up}, failure {replica.failure!r}" for replica in driver.replicas]
    return "\n".join(lines)
