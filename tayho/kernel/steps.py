"""Names for the points between two durable effects, so that a test can kill the process at each (PRF-2)."""

from __future__ import annotations

from collections.abc import Callable

STEPS: frozenset[str] = frozenset(
    {
        # coordination
        "enqueue.after_commit",
        "publish.after_claim",
        "publish.after_add",
        "publish.after_ageing",
        "publish.after_promotion",
        "publish.after_mark",
        "intake.after_fetch",
        "attempt.after_begin",
        "attempt.after_end",
        "attempt.after_ack",
        "delivery.after_decline",
        "control.after_replay",
        "control.after_cancel",
        "control.after_pause",
        "control.after_resume",
        "control.after_resumed_page",
        "control.after_limit",
        "control.after_limit_removed",
        "control.after_drain",
        "control.after_undrain",
        "worker.after_register",
        "worker.after_heartbeat",
        "worker.after_stop",
        "retention.after_archive",
        "retention.after_trim",
        "retention.after_reap",
        "schedule.after_declare",
        "schedule.after_hold",
        "schedule.after_fire",
        # discovery
        "scan.after_record",
        "scan.after_findings",
        # intents
        "intent.after_register",
        "intent.after_accept",
        "batch.after_claim",
        "batch.after_release",
        # transactions
        "lane.after_register",
        "lane.after_observe",
        "lane.after_state",
        "lane.after_foreign",
        "lane.after_block",
        "lane.after_reopen",
        "world.after_anchor",
        "world.after_adopt",
        "world.after_restart",
        "halt.after_raise",
        "halt.after_resolve",
        "journal.after_allocate",
        "journal.after_sign",
        "journal.after_persist",
        "broadcast.before_send",
        "broadcast.after_send",
        "journal.after_mark",
        "journal.after_abandon",
        "reconcile.after_filler_claim",
        "reconcile.after_claim",
        "reconcile.after_note",
        "reconcile.after_rebroadcast",
        "reconcile.after_finalise",
        "reorg.after_boundary",
        "reorg.after_record",
        "reorg.after_revive",
        "supersede.after_hold",
        "supersede.after_release",
        "supersede.after_decide",
        "replace.after_wish",
        "replace.after_sign",
        "replace.after_persist",
        "replace.after_send",
        "replace.after_abandon",
        "hold.after_change",
        "results.after_hold",
        "evidence.after_turn",
        "rotation.after_drain",
        "rotation.after_undrain",
        "rotation.after_request",
        "rotation.after_check",
        "rotation.after_rotate",
    }
)

_hook: Callable[[str], None] | None = None


def step(name: str) -> None:
    """Mark a point between two durable effects. Costs one comparison where no fault is being injected."""
    if _hook is not None:
        _hook(name)


def on_step(hook: Callable[[str], None] | None) -> None:
    """Call `hook` at every step from now on; None takes it away. For fault injection only."""
    global _hook  # noqa: PLW0603 - one process has one fault plan
    _hook = hook
