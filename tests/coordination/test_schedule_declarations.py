"""A bad declaration is told whole, before anything runs; a good one survives its way through the database."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tayho.coordination.schedule_declarations import declared_of, document_of, job_of, problems_of, slot_text
from tayho.coordination.schedule_rules import next_slot
from tayho.coordination.types import PRIORITY_DEFAULT, Declared
from tayho.kernel.json_document import DOCUMENT_BYTES_MAX
from tayho.kernel.schedule import Schedule
from tests.coordination.conftest import ROLE
from tests.coordination.test_schedule_rules import NOON

GOOD: dict[str, Any] = {"name": "scan", "every_seconds": 60}
CRON: dict[str, Any] = {"name": "scan", "cron": "0 2 * * *", "time_zone": "Europe/Berlin"}


def declared(**fields: Any) -> Declared:
    return Declared(Schedule(**fields), "kind", ROLE)


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({**GOOD, "name": "Not A Name"}, "name"),
        ({**GOOD, "name": "n" * 101}, "name"),
        ({**GOOD, "name": 7}, "name"),
        ({"name": "scan"}, "either"),
        ({**GOOD, **CRON}, "either"),
        ({**GOOD, "every_seconds": 0}, "every_seconds"),
        ({**GOOD, "every_seconds": 1.5}, "every_seconds"),
        ({**GOOD, "every_seconds": True}, "every_seconds"),
        ({**GOOD, "time_zone": "Europe/Berlin"}, "time_zone"),
        ({**CRON, "cron": "0 2 * *"}, "five fields"),
        ({**CRON, "cron": "0 0 2 * * *"}, "five fields"),
        ({**CRON, "cron": "@daily"}, "five fields"),
        ({**CRON, "cron": "61 2 * * *"}, "minute"),
        ({**CRON, "cron": "0 0 30 2 *"}, "day-of-month"),
        ({**CRON, "cron": 5}, "five fields"),
        ({**CRON, "time_zone": "Europe/Berlim"}, "Berlim"),
        ({**CRON, "time_zone": "../Berlin"}, "IANA"),
        ({**CRON, "time_zone": "Europe"}, "IANA"),
        ({**CRON, "time_zone": "localtime"}, "IANA"),
        ({**CRON, "time_zone": ""}, "IANA"),
        ({**CRON, "time_zone": None}, "IANA"),
        ({**GOOD, "request": {"slot_at": 1}}, "slot_at"),
        ({**GOOD, "request": {"text": "a\x00b"}}, "NUL"),
        ({**GOOD, "request": {"blob": "x" * (DOCUMENT_BYTES_MAX - 20)}}, "bytes"),
        ({**GOOD, "request": {1: "x"}}, "keys are text"),
        ({**GOOD, "request": ["x"]}, "mapping"),
        ({**GOOD, "priority": 0}, "priority"),
        ({**GOOD, "priority": 2**21}, "priority"),
        ({**GOOD, "catch_up": "some"}, "catch_up"),
    ],
)
def test_a_fault_is_named(fields: dict[str, Any], word: str) -> None:
    """Goal: who declares it wrong learns what is wrong. Method: each field broken alone gives one sentence about it."""
    (problem,) = problems_of([declared(**fields)])
    assert word in problem
    assert repr(fields["name"]) in problem


def test_every_fault_of_every_schedule_is_told_at_once() -> None:
    """Goal: one start shows all. Method: two bad schedules, a name declared twice, a kind that has no role."""
    homeless = Declared(Schedule(**GOOD), "other", "nobody")
    problems = problems_of([declared(**GOOD), homeless, declared(name="x", priority=0, catch_up="?")])
    assert len(problems) == 5
    for word in ("either", "priority", "catch_up", "'nobody'", "2 times, by kind, other"):
        assert any(word in problem for problem in problems), word


@pytest.mark.parametrize("fields", [GOOD, {**CRON, "request": {"a": [1, None]}, "priority": 3, "catch_up": "all"}])
def test_a_good_declaration_comes_back_from_its_document(fields: dict[str, Any]) -> None:
    """Goal: what PostgreSQL keeps is the declaration. Method: there and back through JSON; the job of a slot is the
    same."""
    one = declared(**fields)
    assert problems_of([one]) == []
    again = declared_of("scan", json.loads(json.dumps(document_of(one))))
    assert again is not None
    slot = next_slot(one.schedule, NOON)
    assert slot is not None
    assert job_of(again, slot) == job_of(one, slot)
    assert job_of(one, slot).idempotency_key == f"schedule/scan/{slot_text(slot)}"
    assert job_of(one, slot).priority == fields.get("priority", PRIORITY_DEFAULT)


def test_the_longest_key_is_one_that_a_job_may_have() -> None:
    """Goal: no accepted schedule makes a job that is refused. Method: the longest name, kind and request."""
    one = Declared(
        Schedule(name="n" * 100, every_seconds=1, request={"b": "x" * (DOCUMENT_BYTES_MAX - 45)}), "k" * 128, ROLE
    )
    assert problems_of([one]) == []
    assert len(job_of(one, NOON).idempotency_key) == len("schedule/" + "n" * 100 + "/2026-06-01T12:00:00Z")
