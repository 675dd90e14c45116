"""The guards: where each stands, what the copy has in its place, and the test that must notice."""

from __future__ import annotations

from attrs import frozen


@frozen
class Guard:
    """One guard. `text` stands exactly once in `file`, and `without` is put there instead."""

    name: str
    file: str
    text: str
    without: str
    # A test of the suite, as pytest names it.
    test: str


_END = "sql/coordination/attempts.sql"
_FENCE = "tests/coordination/test_fence.py"
_RACES = "tests/coordination/test_races.py"
_PRODUCING = "tests/coordination/test_producing.py"
_SQL_DOOR = "tests/coordination/test_sql_door.py"
_DOOR = "sql/migrations/0006_enqueue.sql"
_CLOCKS = "tests/coordination/test_clocks.py"
_WORKER = "tests/coordination/test_worker.py"
_BALLOTS = "tests/rpc/test_ballots.py"
_HEADS = "tests/rpc/test_heads.py"
_FEES = "tests/transactions/test_fees.py"
_PROOFS = "tests/transactions/test_proofs.py"
_REVIVING = "tests/coordination/test_reviving.py"
_REORGANISATIONS = "tests/transactions/test_reorganisations.py"
_LIARS = "tests/transactions/test_liars.py"
_EXECUTOR = "tests/transactions/test_executor.py"
_SENDING = "tests/transactions/test_sending.py"
_SENDING_FILE = "tayho/transactions/sending.py"
_NODE_ANSWERS = "tests/transactions/test_node_answers.py"
_HOLDS = "tests/transactions/test_holds.py"
_LIMITS = "tests/coordination/test_limits.py"
_PAUSES = "tests/coordination/test_control_pauses.py"
_OUTBOX = "sql/coordination/outbox.sql"
_REPLACING = "tests/transactions/test_replacing.py"
_REPLACING_RULES = "tests/transactions/test_replacing_rules.py"
_RULES_OF_REPLACING = "tayho/transactions/replacing/rules.py"
_HALTS = "tests/transactions/test_halts.py"
_LANES = "tests/transactions/test_lane_watch.py"
_LANE_RULES = "tests/transactions/test_lane_rules.py"
_WORLD = "tests/transactions/test_world.py"

GUARDS = (
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
        "one bad item fails its group commit alone",
        "storage/commits.py",
        "        except (Refused, Conflict) as error:\n            if len(items) == 1:\n",
        "        except (Refused, Conflict) as error:\n            if items:\n",
        "tests/storage/test_commits.py::test_each_good_item_is_committed_once_and_each_bad_one_gets_its_own_error",
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
        "a nonce belongs to one lineage",
        "sql/migrations/0003_transactions.sql",
        "CREATE UNIQUE INDEX lineages_nonce ON transactions.lineages (chain_id, signer, world, nonce) WHERE",
        "CREATE INDEX lineages_nonce ON transactions.lineages (chain_id, signer, world, nonce) WHERE",
        "tests/transactions/test_journal.py::test_two_lineages_never_hold_one_nonce",
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
    Guard(
        "a job with a limit key ages only from its publication",
        _OUTBOX,
        "greatest(jobs.run_at, due.limited_until)",
        "jobs.run_at",
        f"{_LIMITS}::test_the_backlog_of_a_flood_does_not_age_past_fresh_jobs",
    ),
    Guard(
        "a worker hears of pauses before its first fetch",
        "tayho/coordination/module.py",
        "            # Before the first fetch: what is paused now must not be taken first and put back after.\n"
        "            await once()\n",
        "            pass\n",
        f"{_PAUSES}::test_what_waits_in_the_queue_of_a_paused_role_stays_there",
    ),
    Guard(
        "a job that owns a nonce is not cancelled",
        "tayho/coordination/control/rules.py",
        "job.has_live_lineage or job.state",
        "job.state",
        "tests/coordination/test_control_jobs.py::"
        "test_a_job_that_owns_a_nonce_is_not_cancelled_and_a_cancelled_one_gets_none",
    ),
    Guard(
        "half of the voters is no majority",
        "rpc/ballots.py",
        "configured // 2 + 1",
        "(configured + 1) // 2",
        f"{_BALLOTS}::test_a_majority_is_strict",
    ),
    Guard(
        "the majority is of the configured voters",
        "rpc/ballots.py",
        "majority_of(len(self._voters))",
        "1",
        f"{_BALLOTS}::test_one_of_three_may_be_silent_and_two_may_not",
    ),
    Guard(
        "a voter has one vote",
        "rpc/ballots.py",
        "        if voter in self._votes:\n            return\n",
        "",
        f"{_BALLOTS}::test_a_voter_has_one_vote_however_often_it_is_asked",
    ),
    Guard(
        "an error is no truth of a receipt",
        "rpc/ballots.py",
        "isinstance(outcome, Reverted) and self._call.method in _MAY_REVERT",
        "isinstance(outcome, Reverted)",
        f"{_BALLOTS}::test_errors_that_agree_are_no_truth_of_a_receipt",
    ),
    Guard(
        "a liar far ahead does not raise the head",
        "rpc/segment.py",
        "told[needed - 1]",
        "told[0]",
        "tests/transactions/test_liars.py::test_one_liar_of_three_moves_no_decision_and_is_named",
    ),
    Guard(
        "a node that has not begun does not lower the head",
        "rpc/segment.py",
        "for height in heights if height > 0)",
        "for height in heights)",
        f"{_HEADS}::test_the_height_that_a_majority_has_reached",
    ),
    Guard(
        "a walk goes along the parent hashes",
        "rpc/segment.py",
        "if below is None or below.hash != self._headers[self.lowest].parent_hash:",
        "if below is None:",
        f"{_HEADS}::test_a_block_that_does_not_link_is_not_walked_past",
    ),
    Guard(
        "the head goes on only from a block that is still there",
        "rpc/heads.py",
        "        if agreed[top.number] != top:\n            return await self._reorganised(segment, height)\n",
        "",
        f"{_HEADS}::test_a_final_block_that_is_replaced_stops_everything",
    ),
    Guard(
        "a final block is looked at after a reorganisation",
        "rpc/heads.py",
        "        await self._hold_final(segment)\n",
        "",
        f"{_HEADS}::test_a_final_block_that_is_replaced_stops_everything",
    ),
    Guard(
        "a nonce is asked at the block of the head",
        "rpc/truth.py",
        "methods.transaction_count(one, block.hash)",
        'methods.transaction_count(one, "latest")',
        "tests/rpc/test_heads_on_nodes.py::test_a_nonce_is_agreed_at_the_block_of_the_head",
    ),
    Guard(
        "the reconciler believes a majority",
        "tayho/voters.py",
        "quorum = Quorum(voters, contested)",
        "quorum = Quorum(voters[:1], contested)",
        f"{_LIARS}::test_a_receipt_that_one_liar_invents_ends_nothing",
    ),
    Guard(
        "a lane has sends in one batch at a time",
        _SENDING_FILE,
        "if lane and signer not in self._busy]",
        "if lane]",
        f"{_SENDING}::test_a_lane_waits_for_its_batch_and_others_do_not",
    ),
    Guard(
        "what a cancelled caller carried for others goes out again",
        _SENDING_FILE,
        "            self._enqueue(entry for entry in batch if entry.answer is None and not entry.caller.has_left)\n",
        "",
        f"{_SENDING}::test_a_cancelled_caller_cuts_off_nobody_else",
    ),
    Guard(
        "what was simulated long ago is simulated again before it is signed",
        "tayho/transactions/simulation.py",
        "return self.signer == signer and now - self.asked_at <= FRESH_SECONDS",
        "return self.signer == signer",
        f"{_EXECUTOR}::test_a_simulation_of_an_old_block_or_another_signer_is_made_again",
    ),
    Guard(
        "what was simulated with another signer is simulated again before it is signed",
        "tayho/transactions/simulation.py",
        "return self.signer == signer and now - self.asked_at <= FRESH_SECONDS",
        "return now - self.asked_at <= FRESH_SECONDS",
        f"{_EXECUTOR}::test_a_simulation_of_an_old_block_or_another_signer_is_made_again",
    ),
    Guard(
        "a bump is rounded up",
        "tayho/transactions/fees.py",
        "    return max(-(-wei * (BASIS_POINTS + basis_points) // BASIS_POINTS), wei + 1)",
        "    return max(wei * (BASIS_POINTS + basis_points) // BASIS_POINTS, wei + 1)",
        "tests/transactions/test_replacement_rules.py::test_one_wei_less_on_either_field_is_refused",
    ),
    Guard(
        "a bump is what nodes ask at least",
        "tayho/transactions/fees.py",
        "max(bump_basis_points, NODES_ASK_BASIS_POINTS[transaction_type])",
        "bump_basis_points",
        f"{_FEES}::test_nodes_take_every_bump_and_the_ceiling_holds",
    ),
    Guard(
        "no bump passes the ceiling",
        "tayho/transactions/fees.py",
        "    if lowest_wei > fee_wei_max:",
        "    if lowest_wei > 2 * fee_wei_max:",
        f"{_FEES}::test_nodes_take_every_bump_and_the_ceiling_holds",
    ),
    Guard(
        "an estimate of gas is possible",
        "tayho/transactions/fees.py",
        "    if not INTRINSIC_GAS <= gas_estimate <= block_gas_limit:",
        "    if not 0 <= gas_estimate <= block_gas_limit:",
        f"{_FEES}::test_an_absurd_estimate_is_refused_and_a_sound_one_fits",
    ),
    Guard(
        "an invented tip is bounded",
        "tayho/transactions/fee_market.py",
        "bounded_tip(tip_wei, tuple(self._usual_wei))",
        "bounded_tip(tip_wei, ())",
        "tests/transactions/test_fee_market.py::test_an_invented_tip_is_bounded_by_the_usual_ones",
    ),
    Guard(
        "jobs of one block ask the market once",
        "tayho/transactions/fee_market.py",
        "            if flight is None:",
        "            if flight is None or flight.block_number:",
        "tests/transactions/test_fee_market.py::test_all_jobs_of_a_block_share_one_question",
    ),
    Guard(
        "a legacy transaction has one price",
        "tayho/custody/validation.py",
        "        *_of_type(request),\n",
        "",
        "tests/custody/test_validation.py::test_each_rule_is_broken_alone",
    ),
    Guard(
        "a receipt that its block refutes is not seen",
        "rpc/truth.py",
        "{one: receipt for one, receipt in receipts.agreed.items() if one not in doubtful}",
        "receipts.agreed",
        f"{_PROOFS}::test_two_liars_of_three_end_nothing",
    ),
    Guard(
        "a block that is shown makes the hash that was agreed",
        "rpc/block_proofs.py",
        "    verify_header(told.header)\n",
        "",
        "tests/rpc/test_receipt_checks.py::test_no_field_of_a_block_can_be_forged",
    ),
    Guard(
        "a header that does not make its hash is not built on",
        "tayho/voters.py",
        "        verify_header(header)\n",
        "        pass\n",
        f"{_PROOFS}::test_a_header_that_does_not_make_its_hash_ends_nothing",
    ),
    Guard(
        "evidence goes by its age alone",
        "sql/migrations/0008_evidence.sql",
        "        OR OLD.decided_at >= now() - make_interval(days => greatest(days, 7))\n",
        "",
        "tests/transactions/test_evidence.py::test_evidence_cannot_be_rewritten",
    ),
    Guard(
        "what an earlier process relied on is compared",
        "rpc/heads.py",
        "        self._finality.suspect(FinalBlock(number, block_hash))\n",
        "",
        f"{_HEADS}::test_what_an_earlier_process_relied_on_is_held",
    ),
    Guard(
        "replacements are counted",
        _RULES_OF_REPLACING,
        "    return spent >= limits.replacements_max\n",
        "    return False\n",
        f"{_REPLACING}::test_no_more_replacements_than_allowed",
    ),
    Guard(
        "only the lowest nonce of a lane is bumped",
        "tayho/transactions/replacing/types.py",
        '"stuck" if self.is_lowest and self.is_overdue else None',
        '"stuck" if self.is_overdue else None',
        f"{_REPLACING_RULES}::test_a_replacement_keeps_every_promise",
    ),
    Guard(
        "only the nonce that the chain waits for is bumped",
        _RULES_OF_REPLACING,
        "    if sight.nonces.get(candidate.lineage.signer) != candidate.lineage.nonce:\n        return False\n",
        "",
        f"{_REPLACING_RULES}::test_a_replacement_keeps_every_promise",
    ),
    Guard(
        "nothing is replaced that may be mined",
        _RULES_OF_REPLACING,
        "    if not _is_unmined(candidate, sight):\n        return LetBe()\n",
        "",
        f"{_REPLACING_RULES}::test_a_replacement_keeps_every_promise",
    ),
    Guard(
        "of two replicas one replaces",
        "sql/transactions/replacing.sql",
        """        AND NOT EXISTS (
            SELECT FROM transactions.members AS taken
            WHERE taken.lineage_id = asked.lineage_id AND taken.member_number >= asked.member_number
        )
""",
        "",
        f"{_REPLACING}::test_of_two_replicas_one_replaces",
    ),
    Guard(
        "a failed bump sends the old bytes again",
        "tayho/transactions/replacing/rounds.py",
        "        old_answers = await self._sending.send_many(old)\n",
        "        old, old_answers = [], []\n",
        f"{_REPLACING}::test_a_failed_bump_sends_the_old_bytes_again",
    ),
    Guard(
        "no signature is kept after a halt",
        "tayho/transactions/journal.py",
        "            if not await held_unhalted(tx, self._settings):\n"
        "                return [PoolHalted() for _ in persistences]\n",
        "",
        f"{_HALTS}::test_no_signature_commits_after_the_halt_has",
    ),
    Guard(
        "a halt waits for whoever found the pool unhalted",
        "sql/transactions/halts.sql",
        "role = $3 FOR UPDATE;",
        "role = $3;",
        f"{_HALTS}::test_no_signature_commits_after_the_halt_has",
    ),
    Guard(
        "no nonce is taken of a halted pool",
        "tayho/transactions/journal.py",
        "            if is_halted:\n                return [PoolHalted() for _ in allocations]\n",
        "",
        f"{_HALTS}::test_nothing_is_allocated_signed_or_ended_while_a_halt_is_open",
    ),
    Guard(
        "nothing ends after a halt",
        "tayho/transactions/reconciler.py",
        "            if not await held_unhalted(tx, self._settings):\n                raise PoolHalted\n",
        "",
        f"{_HALTS}::test_a_tick_under_way_ends_nothing_after_a_halt",
    ),
    Guard(
        "the reserve is never spent on new work",
        "tayho/transactions/lane_rules.py",
        "    return facts.value_in_flight_wei + reserve + room_wei(facts, fee_wei_max, needs)\n",
        "    return facts.value_in_flight_wei + room_wei(facts, fee_wei_max, needs)\n",
        f"{_LANE_RULES}::test_what_an_open_lane_keeps_back_pays_for_all_that_may_have_to_be_sent",
    ),
    Guard(
        "a lane that somebody else used takes nothing",
        "tayho/transactions/round_robin.py",
        " or (lane.latest_nonce is not None and lane.latest_nonce > lane.next_nonce):",
        ":",
        f"{_LANE_RULES}::test_a_delegated_lane_has_one_in_flight_and_a_used_one_none",
    ),
    Guard(
        "a delegated signer has one in flight",
        "tayho/transactions/round_robin.py",
        "(1 if lane.is_delegated else depth)",
        "depth",
        f"{_LANES}::test_a_delegated_signer_has_one_in_flight",
    ),
    Guard(
        "nothing is signed at a nonce that somebody else used",
        "tayho/transactions/executor.py",
        ' and lineage.state == "allocated" and await self.journal.is_taken(lineage):',
        " and not lineage:",
        f"{_LANES}::test_a_job_whose_unsigned_nonce_was_used_elsewhere_takes_another",
    ),
    Guard(
        "nonces that our own database forgot are not foreign",
        "tayho/transactions/lane_rules.py",
        "fence < view.latest_nonce <= fence_seen",
        "fence_seen < 0",
        f"{_LANES}::test_a_database_that_lost_commits_under_us_halts_the_pool",
    ),
    Guard(
        "a heartbeat out of a backup proves nobody",
        "tayho/transactions/world.py",
        "one.heartbeat_age_seconds < trio.current_time() - began",
        "one.heartbeat_age_seconds < 30",
        f"{_WORLD}::test_a_start_beside_others_takes_their_word_only_if_they_speak_now",
    ),
    Guard(
        "a chain that did not begin anew is not restarted on",
        "tayho/transactions/world_acts.py",
        "        await self._require_gone()\n",
        "",
        f"{_WORLD}::test_a_chain_ahead_at_start_halts_and_adopt_goes_on_behind_it",
    ),
    Guard(
        "the anchor is compared before every tick",
        "tayho/transactions/module.py",
        "        await self._world.check()\n",
        "",
        f"{_WORLD}::test_a_halt_for_a_chain_that_was_not_there_ends_when_it_is",
    ),
    Guard(
        "a job that owns a nonce is not revived beside it",
        "sql/coordination/revive.sql",
        "    WHERE NOT jobs.has_live_lineage AND jobs.cancel_requested_at IS NULL",
        "    WHERE jobs.cancel_requested_at IS NULL",
        f"{_REVIVING}::test_a_job_that_is_not_the_lineages_any_more_is_left_alone",
    ),
    Guard(
        "a revival reads after it has locked",
        "tayho/coordination/reviving.py",
        "    await lock_jobs(tx, [revival.job_id for revival in revivals])\n",
        "",
        f"{_REVIVING}::test_a_revival_that_waited_for_a_begin_leaves_no_attempt_running",
    ),
    Guard(
        "the signal of a reorganisation is written down before anything moves",
        "tayho/transactions/reorganising.py",
        """            await self._record(head, judgement.reorganised)
            await self._revive_all(judgement.reorganised)
""",
        """            await self._revive_all(judgement.reorganised)
            await self._record(head, judgement.reorganised)
""",
        f"{_REORGANISATIONS}::test_who_dies_in_between_leaves_the_rest_to_the_next",
    ),
    Guard(
        "a height that is not agreed is no other block",
        "tayho/transactions/reorganising_rules.py",
        """    if not isinstance(now, Header) or now.hash == block.hash:
        return None
    return Replaced(block.number, block.hash, now.hash)
""",
        """    if isinstance(now, Header) and now.hash == block.hash:
        return None
    return Replaced(block.number, block.hash, bytes(32))
""",
        "tests/transactions/test_healing_rules.py::test_only_another_block_that_is_agreed_is_a_reorganisation",
    ),
    Guard(
        "a restart holds the chain to the boundary",
        "tayho/transactions/reorganising.py",
        "        if judgement.violated:\n",
        "        if False:\n",
        "tests/transactions/test_finality.py::test_two_heads_are_held_to_one_boundary",
    ),
    Guard(
        "a disowned lineage's call is not sent again",
        "tayho/transactions/reconcile_rules.py",
        "        return self.active.is_cancellation or not self.is_unwanted\n",
        "        return True\n",
        f"{_REORGANISATIONS}::test_a_lineage_whose_job_went_on_without_it_is_disowned",
    ),
    Guard(
        "one of ours in the block of the nonce supersedes nothing",
        "tayho/transactions/superseding_rules.py",
        "    if any(one.hash in lineage.tx_hashes for one in transactions):\n        return Ours()\n",
        "",
        "tests/transactions/test_superseding.py::test_receipts_that_lag_hold_ours_for_as_long_as_the_block_shows_it",
    ),
    Guard(
        "only what is final supersedes",
        "tayho/transactions/superseding.py",
        "        height = head.number - self._settings.confirmations\n",
        "        height = head.number\n",
        "tests/transactions/test_superseding.py::test_what_is_not_final_yet_supersedes_nothing",
    ),
    Guard(
        "a lane keeps what its bytes cost",
        "tayho/transactions/lane_rules.py",
        "        data_fee_wei=needs.data_fee_wei,\n",
        "",
        "tests/transactions/test_data_fees.py::test_a_lane_closes_before_it_cannot_pay_for_its_bytes",
    ),
    Guard(
        "what nodes differ about is as high as a majority says",
        "rpc/truth.py",
        "numbers[needed - 1]",
        "numbers[0]",
        "tests/transactions/test_data_fees.py::test_one_liar_of_three_moves_no_need",
    ),
    Guard(
        "a known transaction is one word, not the end of another",
        "tayho/transactions/node_answers.toml",
        r"patterns = ['\bknown transaction\b']",
        r"patterns = ['known transaction\b']",
        f"{_NODE_ANSWERS}::test_what_only_resembles_a_yes_is_none",
    ),
    Guard(
        "a client's bare word is believed of that client alone",
        "tayho/transactions/node_answers.py",
        "row.fits(code, words) and (not row.is_dialect or row.is_said_by(client))",
        "row.fits(code, words)",
        f"{_NODE_ANSWERS}::test_a_clients_own_words_count_only_from_it",
    ),
    Guard(
        "an attempt ends as confirming whatever the node said",
        "tayho/transactions/journal.py",
        "confirm_if_current(tx, [one.attempt for one in marks])",
        "confirm_if_current(tx, [one.attempt for one in marks if one.answer.is_out])",
        f"{_HOLDS}::test_a_send_that_is_refused_spends_one_attempt_and_no_more",
    ),
    Guard(
        "a node's words end no hold but a node's",
        "tayho/transactions/answers.py",
        "await _release(tx, list(taken), ANSWER_HOLDS,",
        "await _release(tx, list(taken), get_args(Hold),",
        f"{_HOLDS}::test_only_what_a_node_held_is_held_or_released_by_a_nodes_words",
    ),
    Guard(
        "a late no does not hold what a block shows",
        "sql/transactions/holds.sql",
        "lineages.state IN ('signed', 'broadcast') AND lineages.included_block_number IS NULL\n",
        "lineages.state IN ('signed', 'broadcast')\n",
        f"{_HOLDS}::test_a_late_no_does_not_hold_what_a_block_shows",
    ),
    Guard(
        "against a yes to the same transaction nobody speaks",
        "tayho/transactions/answers.py",
        "if means.hold is not None and lineages[one.tx_hash] not in taken",
        "if means.hold is not None",
        f"{_HOLDS}::test_a_yes_to_one_of_a_batch_holds_only_the_others",
    ),
)
