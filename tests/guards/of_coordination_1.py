"""Guards of jobs, their delivery and their attempts."""

from __future__ import annotations

from tests.guards.guard import Guard

_END = "sql/coordination/attempts.sql"
_FENCE = "tests/coordination/test_fence.py"
_RACES = "tests/coordination/test_races.py"
_PRODUCING = "tests/coordination/test_producing.py"
_SQL_DOOR = "tests/coordination/test_sql_door.py"
_DOOR = "sql/migrations/0006_enqueue.sql"
_CLOCKS = "tests/coordination/test_clocks.py"
_WORKER = "tests/coordination/test_worker.py"
_LIMITS = "tests/coordination/test_limits.py"
_OUTBOX = "sql/coordination/outbox.sql"

OF_COORDINATION_1 = (
    Guard(
        "an attempt ends only while it is the current one",
        _END,
        """        asked.verdict, asked.detail, asked.delay_seconds
    FROM asked
    JOIN coordination.jobs AS jobs USING (job_id)
    WHERE jobs.state = 'processing' AND jobs.attempt_number = asked.attempt_number
        AND jobs.attempt_token = asked.token AND jobs.attempt_worker_id = asked.worker_id
""",
        """        asked.verdict, asked.detail, asked.delay_seconds
    FROM asked
    JOIN coordination.jobs AS jobs USING (job_id)
    WHERE jobs.state = 'processing' AND jobs.attempt_number = asked.attempt_number
        AND jobs.attempt_worker_id = asked.worker_id
""",
        f"{_FENCE}::test_each_part_of_the_fence_alone_refuses",
    ),
    Guard(
        "what another attempt holds is taken over only under its lock",
        "tayho/coordination/attempts.py",
        "takes_over=False",
        "takes_over=True",
        f"{_RACES}::test_two_takeovers_at_once_both_get_a_verdict_and_one_attempt_runs",
    ),
    Guard(
        "a settlement reads after it has locked",
        "tayho/coordination/module.py",
        "        await store.LOCK_JOBS(tx, [settlement.job_id for settlement in settlements])\n",
        "",
        f"{_RACES}::test_a_settlement_that_waited_for_a_begin_leaves_no_attempt_running",
    ),
    Guard(
        "what is early by PostgreSQL's clock does not begin",
        _END,
        "            WHEN locked.run_at > clock_timestamp() THEN 'early'\n",
        "",
        f"{_FENCE}::test_an_early_or_unknown_delivery_is_put_back_unharmed",
    ),
    Guard(
        "what a wrong clock delays for too long is promoted",
        "tayho/coordination/outbox.py",
        "            await queue.promote_many(late)\n",
        "",
        f"{_CLOCKS}::test_a_record_delayed_by_a_clock_an_hour_ahead_is_handed_out_at_the_next_check",
    ),
    Guard(
        "what is not due by PostgreSQL's clock is not promoted",
        "sql/coordination/outbox.sql",
        "judged.run_at <= now() AS may_run",
        "true AS may_run",
        f"{_CLOCKS}::test_a_record_of_a_job_that_is_not_due_stays_delayed",
    ),
    Guard(
        "a failed attempt keeps its wait in PostgreSQL",
        _END,
        "WHEN decided.verdict IN ('returned', 'failed') AND",
        "WHEN decided.verdict = 'returned' AND",
        f"{_CLOCKS}::test_a_retry_that_a_fast_clock_hands_out_at_once_is_not_begun_before_its_wait",
    ),
    Guard(
        "a delivery of an older generation begins nothing",
        _END,
        "            WHEN locked.generation <> locked.asked_generation THEN 'stale_generation'\n",
        "",
        f"{_FENCE}::test_a_delivery_of_another_generation_or_of_an_ended_job_begins_nothing",
    ),
    Guard(
        "a spent budget ends the job",
        _END,
        "WHEN locked.attempts_spent >= $5 AND",
        "WHEN locked.attempts_spent >= $5 + 1000 AND",
        f"{_FENCE}::test_a_job_whose_workers_die_without_a_word_ends_dead",
    ),
    Guard(
        "one key stands for one request",
        "tayho/coordination/producing.py",
        'if row["recorded_digest"] != row["asked_digest"]:',
        "if False:",
        "tests/coordination/test_enqueue.py::test_the_same_key_with_another_request_is_refused_and_names_both",
    ),
    Guard(
        "a record that ended while its job did not gets a new generation",
        "tayho/coordination/outbox.py",
        "if state.is_terminal or state is RecordState.MISSING",
        "if state is RecordState.MISSING",
        f"{_WORKER}::test_a_record_that_ended_while_its_job_did_not_gets_a_new_generation",
    ),
    Guard(
        "a handler whose lock is lost is cancelled",
        "tayho/coordination/held.py",
        '                held.lose("the delivery lock was lost")\n',
        "                pass\n",
        f"{_WORKER}::test_a_lost_lock_cancels_the_handler_and_the_job_runs_again",
    ),
    Guard(
        "locks are renewed while handlers run",
        "tayho/coordination/worker.py",
        '            upkeep.start_soon(self._runner.held.keep, name="lock renewal")\n',
        "",
        f"{_WORKER}::test_a_long_handler_keeps_its_lock",
    ),
    Guard(
        "a state is left only by a listed arrow",
        "sql/migrations/0002_coordination.sql",
        "CREATE TRIGGER jobs_transition BEFORE UPDATE ON coordination.jobs\n"
        "FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state)",
        "CREATE TRIGGER jobs_transition BEFORE UPDATE ON coordination.jobs\nFOR EACH ROW WHEN (false)",
        "tests/coordination/test_transitions.py::test_a_job_takes_exactly_the_listed_arrows",
    ),
    Guard(
        "a batch that meets a conflict is forgotten whole",
        "tayho/coordination/producing.py",
        "        await FORGET_BATCH(tx)\n",
        "        pass\n",
        f"{_PRODUCING}::test_a_batch_that_meets_a_conflict_leaves_the_transaction_as_it_was",
    ),
    Guard(
        "a producer without a transaction is refused",
        "tayho/embedding.py",
        "    if not tx.is_in_transaction():\n",
        "    if False:\n",
        f"{_PRODUCING}::test_outside_a_transaction_nothing_is_recorded",
    ),
    Guard(
        "what is due in the past is due now",
        "sql/coordination/jobs.sql",
        "greatest(asked.run_at, clock_timestamp())",
        "coalesce(asked.run_at, clock_timestamp())",
        f"{_PRODUCING}::test_what_is_due_in_the_past_is_due_now",
    ),
    Guard(
        "one key stands for one request in SQL too",
        _DOOR,
        "    IF recorded_digest IS DISTINCT FROM asked_digest THEN\n",
        "    IF false THEN\n",
        f"{_SQL_DOOR}::test_a_conflict_names_both_digests",
    ),
    Guard(
        "a key that stands twice in one object is refused",
        _DOOR,
        "    IF request IS NOT JSON OBJECT WITH UNIQUE KEYS THEN\n",
        "    IF false THEN\n",
        f"{_SQL_DOOR}::test_a_text_is_read_as_every_reader_reads_it_or_refused",
    ),
    Guard(
        "the two doors are one",
        _DOOR,
        "secs => 60 * log(",
        "secs => 61 * log(",
        f"{_SQL_DOOR}::test_both_doors_decide_alike_and_record_the_same",
    ),
    Guard(
        "a live worker is waited for only if it knows the kind",
        _END,
        " AND judged.kind = ANY (workers.kinds)\n",
        "\n",
        "tests/coordination/test_unknown_kinds.py::test_what_a_live_worker_knows_is_back_within_a_second",
    ),
    Guard(
        "one publisher at a time decides over a limit key",
        _OUTBOX,
        "ORDER BY limits.limit_key\nFOR UPDATE SKIP LOCKED;",
        "ORDER BY limits.limit_key;",
        f"{_LIMITS}::test_a_key_that_another_decides_over_is_left_to_it",
    ),
)
