"""Metrics: what is counted, and how it reads."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Enum
from typing import get_args
from uuid import UUID

import attrs
import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from rpc.member_status import HedgeSeen, MemberStatus, MethodStatus
from rpc.observation import Observation
from tayho.discovery.types import Scanned
from tayho.kernel.address import Address
from tayho.kernel.jobs import Attempt, Completed, Ended, Job, NotActionable, Outcome, Postponed, StaleAttempt
from tayho.observability import Metrics, scan_instruments
from tayho.observability.metrics import _OUTCOMES
from tayho.observability.transaction_instruments import LaneGauges
from tayho.transactions.types import Happening as TxHappening
from tayho.transactions.types import Stage

JOB = Job(UUID(int=1), 1, "test", "automation", "k", "key", {}, 1, False, datetime(2026, 1, 1, tzinfo=UTC))
ATTEMPT = Attempt(UUID(int=1), 1, "token-of-sixteen", UUID(int=2))


def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample of the page, read back by Prometheus's own parser."""
    families = text_string_to_metric_families(metrics.render().decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


async def test_an_attempt_is_counted_by_how_its_handler_ended():
    """Goal: tayho_attempts_total. Method: a handler for every end, one cancelled inside its own nursery."""
    metrics = Metrics()
    seen: list[float] = []

    def ends_with(end: object):
        async def handler(_job: Job, _attempt: Attempt):
            await trio.lowlevel.checkpoint()
            seen.append(samples(metrics)["tayho_handlers_running", ()])
            if isinstance(end, Exception):
                raise end
            return end

        return metrics.watched("k", handler)

    async def sleeps(_job: Job, _attempt: Attempt):
        async with trio.open_nursery() as tasks:
            tasks.start_soon(trio.sleep_forever)
            tasks.start_soon(trio.sleep_forever)

    for end in (Completed(), NotActionable("x"), Ended(), Postponed("x")):
        assert await ends_with(end)(JOB, ATTEMPT) is end
    for error in (StaleAttempt(ATTEMPT), KeyError("x")):
        with pytest.raises(type(error)):
            await ends_with(error)(JOB, ATTEMPT)
    with trio.move_on_after(0):
        await metrics.watched("k", sleeps)(JOB, ATTEMPT)

    found = samples(metrics)
    for outcome in ("completed", "not_actionable", "ended", "postponed", "stale", "failed", "cut_off"):
        assert found["tayho_attempts_total", (("kind", "k"), ("outcome", outcome))] == 1, outcome
    assert set(seen) == {1}
    assert found["tayho_handlers_running", ()] == 0
    assert found["tayho_attempt_seconds_count", (("kind", "k"),)] == 7


class _Happening(Enum):
    ENDED = "ended"


def test_what_coordination_saw_is_counted():
    """Goal: ends, declines and published deliveries can be watched. Method: tell it twice, once of nothing."""
    metrics = Metrics()
    metrics.observe_delivery(_Happening.ENDED, "completed", 3)
    metrics.observe_delivery(_Happening.ENDED, "completed", 2)
    metrics.observe_delivery(_Happening.ENDED, "stale", 0)
    found = samples(metrics)
    assert found["tayho_deliveries_total", (("label", "completed"), ("what", "ended"))] == 5
    assert ("tayho_deliveries_total", (("label", "stale"), ("what", "ended"))) not in found


def test_rpc_questions_are_counted_and_timed():
    """Goal: RPC-10's counts. Method: observations as an endpoint makes them."""
    metrics = Metrics()
    metrics.observe_rpc(Observation("https://rpc/…", "eth_call", "answered", 0.2, 1))
    metrics.observe_rpc(Observation("https://rpc/…", "eth_call", "HttpStatus", 0.4, 3))
    found = samples(metrics)
    labels = (("endpoint", "https://rpc/…"), ("method", "eth_call"))
    assert found["tayho_rpc_requests_total", (*labels, ("outcome", "answered"))] == 1
    assert found["tayho_rpc_requests_total", (*labels, ("outcome", "HttpStatus"))] == 1
    assert found["tayho_rpc_seconds_sum", labels] == pytest.approx(0.6)


def test_endpoints_are_shown_as_they_stand():
    """Goal: RPC-10's gauges, without ghosts of before. Method: two endpoints, then one; a race with a hedge."""
    metrics = Metrics()
    one = MemberStatus(
        endpoint="https://one",
        score=0.9,
        methods={"eth_call": MethodStatus(0.8, 0.02)},
        circuits={"light": "closed", "state": "half-open", "heavy": "open"},
        circuit_causes={"heavy": "reset"},
        head=16,
        lag_blocks=3,
        requests=7,
        faults=1,
        hedges_fired=2,
        hedges_won=1,
        dissents=4,
    )
    metrics.show_endpoints([one, attrs.evolve(one, endpoint="https://gone")])
    metrics.show_endpoints([one])
    metrics.observe_hedge(HedgeSeen("eth_call", "https://one", "https://two", won=True))
    found = samples(metrics)
    shown = {key: value for key, value in found.items() if ("endpoint", "https://one") in key[1]}
    assert ("endpoint", "https://gone") not in {label for _, labels in found for label in labels}
    assert {name: value for (name, labels), value in shown.items() if len(labels) == 1} == {
        "tayho_rpc_head_lag_blocks": 3,
        "tayho_rpc_dissents": 4,
    }
    circuits = {dict(labels)["method_class"]: value for (name, labels), value in shown.items() if "circuit" in name}
    assert circuits == {"light": 0, "state": 0.5, "heavy": 1}
    assert found["tayho_rpc_score", (("endpoint", "https://one"), ("method", "eth_call"))] == 0.8
    labels = (("endpoint", "https://one"), ("method", "eth_call"), ("won", "true"))
    assert found["tayho_rpc_hedges_total", labels] == 1


def test_a_lane_that_left_the_pool_is_not_shown_any_more():
    """Goal: no ghost of a rotated signer. Method: show two lanes, forget, show one."""
    metrics = Metrics()
    one, other = Address(b"\x01" * 20), Address(b"\x02" * 20)
    for signer in (one, other):
        metrics.show_lane(signer, in_flight=3, next_nonce=7, state="open")
    metrics.forget_lanes()
    metrics.show_lane(one, in_flight=4, next_nonce=2**60, state="blocked")
    shown = {key: value for key, value in samples(metrics).items() if key[0].startswith("tayho_lane_")}
    label = (("signer", one.checksummed),)
    assert shown == {
        ("tayho_lane_in_flight", label): 4,
        ("tayho_lane_next_nonce", label): 2**60,
        ("tayho_lane_open", label): 0,
        ("tayho_lane_state", (*label, ("state", "blocked"))): 1,
    }


def test_what_the_engine_saw_is_counted_and_timed():
    """Goal: answers by class, holds and ends can be watched, and how long the way out and to the end takes. Method:
    tell it twice, once of nothing, once of a clock that was set back."""
    metrics = Metrics()
    metrics.transactions.observe(TxHappening.ANSWERED, "nonce_too_low", 2)
    metrics.transactions.observe(TxHappening.ANSWERED, "nonce_too_low", 1)
    metrics.transactions.observe(TxHappening.HELD, "underfunded", 0)
    metrics.transactions.observe_seconds(Stage.FINAL, 40.0)
    metrics.transactions.observe_seconds(Stage.FINAL, -1.0)
    found = samples(metrics)
    counted = {key: value for key, value in found.items() if key[0] == "tayho_transactions_total"}
    assert counted == {("tayho_transactions_total", (("label", "nonce_too_low"), ("what", "answered"))): 3}
    assert found["tayho_transaction_seconds_sum", (("stage", "final"),)] == 40
    assert found["tayho_transaction_seconds_count", (("stage", "final"),)] == 2


def test_a_pool_is_shown_as_it_stands():
    """Goal: lanes and lineages by state and hold, without ghosts of before. Method: show two lanes, then one, of which
    no node was asked yet; then forget."""
    metrics = Metrics()
    one, gone = Address(b"\x01" * 20), Address(b"\x02" * 20)
    lane = LaneGauges(latest_nonce=4, pending_nonce=5, balance_wei=10**18, held=1, oldest_open_seconds=7.5)
    metrics.transactions.show({one: lane, gone: lane}, {("signed", "underfunded"): 1, ("broadcast", ""): 2})
    unasked = LaneGauges(latest_nonce=None, pending_nonce=5, balance_wei=None, held=0, oldest_open_seconds=None)
    metrics.transactions.show({one: unasked}, {("broadcast", ""): 2})
    shown = {
        key: value for key, value in samples(metrics).items() if key[0].startswith(("tayho_lane_", "tayho_lineages"))
    }
    label = (("signer", one.checksummed),)
    assert {key: value for key, value in shown.items() if key[1]} == {
        ("tayho_lane_pending_nonce", label): 5,
        ("tayho_lane_held", label): 0,
        ("tayho_lane_oldest_open_seconds", label): 0,
        ("tayho_lineages", (("hold", ""), ("state", "broadcast"))): 2,
    }
    metrics.transactions.forget()
    assert not [key for key in samples(metrics) if key[0].startswith("tayho_lane_") or key[0] == "tayho_lineages"]


def test_a_role_without_jobs_is_not_shown():
    """Goal: the ages of queues are present ones. Method: two roles, then one, then none that can be read."""
    metrics = Metrics()
    metrics.show_ages([("payouts", 7.5, 0), ("relayer", 1, 2)])
    metrics.show_ages([("relayer", 3, 4)])
    ages = {key: value for key, value in samples(metrics).items() if key[0].endswith("_oldest_seconds")}
    role = (("role", "relayer"),)
    assert ages == {("tayho_queue_oldest_seconds", role): 3, ("tayho_processing_oldest_seconds", role): 4}
    metrics.forget_ages()
    assert not [key for key in samples(metrics) if key[0].endswith("_oldest_seconds")]


def test_readiness_is_shown_by_its_checks():
    """Goal: an alert can be written on it, and on its reason. Method: two reasons of one check, then another, then
    none."""
    metrics = Metrics()
    for checks, expected in ((["redis", "redis"], {"redis"}), (["drain", "rpc"], {"drain", "rpc"}), ([], set())):
        metrics.process.show_readiness(checks)
        found = samples(metrics)
        assert {dict(labels)["check"] for name, labels in found if name == "tayho_unready"} == expected
        assert found["tayho_ready", ()] == (not expected)


def test_two_registries_never_meet():
    """Goal: no state of the whole process. Method: two of them, one counted in."""
    one, other = Metrics(), Metrics()
    one.show_draining(draining=True)
    assert samples(one)["tayho_draining", ()] == 1
    assert samples(other)["tayho_draining", ()] == 0
    assert not [name for name, _ in samples(one) if name.endswith("_created")]
    assert [key for key in samples(one) if key[0] == "tayho_build_info"]
    assert ("process_resident_memory_bytes", ()) in samples(one)


def test_every_outcome_of_a_handler_has_its_word():
    """Goal: a new outcome is counted under its own name. Method: the union itself against the table."""
    assert set(get_args(Outcome)) == set(_OUTCOMES)


def test_a_scan_is_counted_and_its_absence_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: tayho_scans_total and tayho_scan_age_seconds. Method: a kind whose looks stop, on a clock of the test's."""
    clock = [100.0]
    monkeypatch.setattr(scan_instruments, "monotonic", lambda: clock[0])
    metrics = Metrics()
    metrics.scans.begin("k")
    for what, count in ((Scanned.NEW, 3), (Scanned.LOOKED, 1), (Scanned.DEAD, 0), (Scanned.FAILED, 1)):
        clock[0] += 7
        metrics.scans.observe("k", what, count)
    seen = samples(metrics)
    kind = ("kind", "k")
    assert seen["tayho_scan_age_seconds", (kind,)] == 14
    assert seen["tayho_scans_total", (kind, ("what", "new"))] == 3
    assert ("tayho_scans_total", (kind, ("what", "dead"))) not in seen
