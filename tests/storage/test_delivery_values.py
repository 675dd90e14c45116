"""The pure parts of the delivery plane: ids, records, backoff, damage, remembered tokens."""

import json
from collections.abc import Generator
from uuid import UUID

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as some

from storage.backoff import wait_milliseconds
from storage.bullmq_records import QueueView, delivery_of
from storage.bullmq_scripts import Conversation, ScriptCall, ScriptRefused
from storage.delivery import COMPLETED_KEPT, FAILED_KEPT
from storage.errors import ReplyLost
from storage.records import (
    ATTEMPTS_MAX,
    BACKOFF_MILLISECONDS_MAX,
    GENERATION_MAX,
    PRIORITY_MAX,
    RecordInvalid,
    delivery_id,
    parse_delivery_id,
)
from storage.unanswered import LOOK_AGAIN_SECONDS, UnansweredFetches
from tests.storage.delivery_plane import a_record


@given(some.uuids(), some.integers(0, GENERATION_MAX))
def test_ids_are_read_as_they_were_written(job_id: UUID, generation: int) -> None:
    """Goal: one form, both ways. Method: any job and generation; and never a character that BullMQ splits at."""
    text = delivery_id(job_id, generation)
    assert parse_delivery_id(text) == (job_id, generation)
    assert ":" not in text
    assert not text.isdigit()


@pytest.mark.parametrize(
    "text",
    ["", "1", "meta", "0:1", "a:b", "6BA7B810-9DAD-11D1-80B4-00C04FD430C8-g1", "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
     "6ba7b810-9dad-11d1-80b4-00c04fd430c8-g", "6ba7b810-9dad-11d1-80b4-00c04fd430c8-g-1",
     "6ba7b810-9dad-11d1-80b4-00c04fd430c8-g01", "6ba7b810-9dad-11d1-80b4-00c04fd430c8-g1\n",
     "6ba7b8109dad11d180b400c04fd430c8-g1", f"6ba7b810-9dad-11d1-80b4-00c04fd430c8-g{GENERATION_MAX + 1}",
     "6ba7b810-9dad-11d1-80b4-00c04fd430c8-g\u0661"],
)  # fmt: skip
def test_no_other_id_is_published(text: str) -> None:
    """Goal: ids that collide with BullMQ's keys never reach it. Method: near misses and known traps."""
    with pytest.raises(RecordInvalid, match="not a delivery id"):
        parse_delivery_id(text)
    with pytest.raises(RecordInvalid, match="not a delivery id"):
        evolve(a_record(), delivery_id=text)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("priority", [0, -1, PRIORITY_MAX + 1, 1.0, True, "1"]),
        ("attempts", [0, ATTEMPTS_MAX + 1, 2.0]),
        ("backoff_milliseconds", [-1, BACKOFF_MILLISECONDS_MAX + 1, 10.5]),
        ("name", ["", "\ud800"]),
    ],
)
def test_a_field_out_of_range_is_refused(field: str, values: list[object]) -> None:
    """Goal: Python's bullmq validates nothing, so we do. Method: the edges, and other types that compare well."""
    for value in values:
        with pytest.raises(RecordInvalid, match=field):
            evolve(a_record(attempts=1), **{field: value})


def test_a_backoff_that_would_outgrow_its_bound_is_refused() -> None:
    """Goal: Node knows no bound, so the record must keep it. Method: the last attempts that fit, and one more."""
    assert a_record(attempts=11, backoff_milliseconds=84_375).attempts == 11
    with pytest.raises(RecordInvalid, match="ends in a wait above"):
        a_record(attempts=12, backoff_milliseconds=84_376)
    assert a_record(attempts=ATTEMPTS_MAX, backoff_milliseconds=0).attempts == ATTEMPTS_MAX


_ANY_JSON = some.recursive(
    some.none() | some.booleans() | some.floats() | some.integers() | some.text(max_size=5),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(
    backoff=some.dictionaries(some.sampled_from(["type", "delay", "jitter"]), _ANY_JSON),
    failures=some.integers(-5, 2_000),
    chance=some.floats(0, 1, exclude_max=True),
)
def test_any_backoff_gives_a_bounded_wait(backoff: dict[str, object], failures: int, chance: float) -> None:
    """Goal: no option of another producer breaks or blocks a retry. Method: arbitrary JSON; the wait is in bounds."""
    assert 0 <= wait_milliseconds(backoff, failures=failures, milliseconds_max=1000, chance=chance) <= 1000


@given(some.integers(1, 100_000), some.integers(1, 10), some.floats(0, 1), some.floats(0, 1, exclude_max=True))
def test_the_wait_is_nodes_wait(delay: int, failures: int, jitter: float, chance: float) -> None:
    """Goal: a record waits alike under both libraries. Method: the formula of Node's backoffs.js, within 1 ms."""
    backoff = {"type": "exponential", "delay": delay, "jitter": jitter}
    ours = wait_milliseconds(backoff, failures=failures, milliseconds_max=2**60, chance=chance)
    longest = 2 ** (failures - 1) * delay
    assert abs(ours - (chance * longest * jitter + longest * (1 - jitter))) <= 1
    assert longest * (1 - jitter) - 1 <= ours <= longest


@given(some.dictionaries(some.sampled_from(["name", "data", "opts", "atm", "stc", "defa"]), some.text()))
def test_any_hash_makes_a_delivery(fields: dict[str, str]) -> None:
    """Goal: reading a record never raises, for it is locked by then. Method: arbitrary text in every field."""
    delivery = delivery_of("id", "token", fields)
    assert delivery.attempts_allowed >= 1
    assert delivery.attempts_made >= 0
    if "name" not in fields or "data" not in fields:
        assert delivery.damaged


def test_an_untouched_hash_is_not_damaged() -> None:
    """Goal: no false alarm. Method: the least that BullMQ writes."""
    delivery = delivery_of("1", "token", {"name": "", "data": "{}", "opts": json.dumps({"attempts": 0})})
    assert (delivery.damaged, delivery.attempts_allowed) == (None, 1)


def test_lost_tokens_are_in_one_place_at_a_time_and_forgotten_in_the_end() -> None:
    """Goal: the invariant of UnansweredFetches. Method: add, take, give back, restore, and let time pass."""
    tokens = UnansweredFetches(remember_seconds=30)
    assert tokens.take_due(5, now=100) == {}
    tokens.add(["a", "b", "c"], now=100)
    taken = tokens.take_due(2, now=100)
    assert set(taken) == {"a", "b"}
    assert set(tokens.take_due(2, now=100)) == {"c"}
    assert tokens.take_due(2, now=100) == {}
    tokens.give_back(taken, found={"a"}, now=100)
    assert tokens.take_due(2, now=100) == {}
    taken = tokens.take_due(2, now=100 + LOOK_AGAIN_SECONDS)
    assert set(taken) == {"b"}
    tokens.restore(taken)
    assert set(tokens.take_due(2, now=100 + LOOK_AGAIN_SECONDS)) == {"b"}
    tokens.restore(taken)
    tokens.add(["d"], now=129)
    assert set(tokens.take_due(2, now=130)) == {"d"}
    assert len(tokens) == 0


def _view() -> QueueView:
    return QueueView(prefix="p", name="q", lock_milliseconds=1000, completed=COMPLETED_KEPT, failed=FAILED_KEPT)


def test_a_conversation_stops_at_each_script_and_takes_its_answer() -> None:
    """Goal: the package is carried, not imitated. Method: drive one by hand: reply, refusal and lost reply."""
    moving = Conversation(_view().backend.moveToActive("token", {"lockDuration": 1}))
    assert isinstance(moving.call, ScriptCall)
    assert moving.call.script == "moveToActive"
    moving.answer([["name", "pay"], "1-1", 0, 0])
    assert moving.call is None
    assert moving.outcome == [{"name": "pay"}, "1-1", 0, 0]

    refused = Conversation(_view().backend.moveToDelayed("id", 1, 1, "token", {}))
    refused.answer(-6)
    assert isinstance(refused.outcome, ScriptRefused)
    assert refused.outcome.code == -6

    lost = Conversation(_view().backend.moveToDelayed("id", 1, 1, "token", {}))
    lost.answer(error := ReplyLost("no reply"))
    assert (lost.call, lost.outcome) == (None, error)


def test_work_that_awaits_something_else_is_a_bug_that_is_named() -> None:
    """Goal: a newer package that waits for more than scripts fails loudly. Method: a coroutine that awaits a future."""

    class Other:
        def __await__(self) -> Generator[str, object, object]:
            return (yield "a future")

    with pytest.raises(TypeError, match="not one of its scripts"):
        Conversation(Other())
