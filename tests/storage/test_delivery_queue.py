"""One delivery queue against a real Redis: publish, take, finish, fail, put back, renew, recover."""

from collections.abc import Awaitable, Callable
from types import MappingProxyType
from uuid import UUID, uuid4

import pytest
import trio
from attrs import evolve

from storage.bullmq_records import Kept
from storage.delivery import BATCH_MAX, REASON_LENGTH_MAX, DeliveryQueue
from storage.records import AckOutcome, Completion, Delivery, Record, RecordInvalid, RecordState
from storage.redis_wire import QueueRefused
from tests.storage.delivery_plane import Plane, a_delivery, a_record, open_plane
from tests.waiting import until

pytestmark = pytest.mark.services

AWKWARD: dict[str, object] = {
    "text": "żółć 🚀 \u0000 \u2028",
    "big": 2**63 + 1,
    "deep": {"list": [None, True, 1.5, []]},
    "": "",
}


async def _complete(plane: Plane, delivery: Delivery) -> None:
    assert await plane.queue.complete_many([Completion(delivery)]) == [AckOutcome.COMPLETED]


async def _fail(plane: Plane, delivery: Delivery) -> None:
    assert await plane.queue.fail(delivery, "no", retry=False) is AckOutcome.FAILED


async def _delay(plane: Plane, delivery: Delivery) -> None:
    assert await plane.queue.put_back(delivery, delay_seconds=60) is AckOutcome.PUT_BACK


async def _keep(plane: Plane, delivery: Delivery) -> None:
    """Leave it active."""


async def test_a_record_comes_out_as_it_went_in() -> None:
    """Goal: nothing of a record is changed on its way. Method: awkward JSON in, every field compared on fetch."""
    async with open_plane() as plane:
        record = a_record(MappingProxyType(AWKWARD), name="pay ümlaut", attempts=3)
        assert await plane.queue.publish_many([record]) == [RecordState.WAITING]
        [delivery] = await plane.queue.fetch(10)
        assert (delivery.delivery_id, delivery.name, delivery.data) == (record.delivery_id, record.name, AWKWARD)
        assert (delivery.attempts_made, delivery.attempts_allowed, delivery.stalled_count) == (0, 3, 0)
        assert delivery.deferred_failure is None
        assert delivery.damaged is None
        assert await plane.raw("GET", plane.key(f"{record.delivery_id}:lock")) == delivery.token
        assert UUID(delivery.token)


async def test_fetch_takes_what_is_there_each_under_its_own_token() -> None:
    """Goal: never wait to fill, never share a token. Method: 10 records, ask for 64, then of an empty queue."""
    async with open_plane() as plane:
        records = [a_record() for _ in range(10)]
        await plane.queue.publish_many(records)
        taken = await plane.queue.fetch(64)
        assert {each.delivery_id for each in taken} == {each.delivery_id for each in records}
        assert len({each.token for each in taken}) == 10
        assert await plane.queue.fetch(64) == []
        await plane.queue.publish_many(records := [a_record() for _ in range(70)])
        assert len(await plane.queue.fetch(64)) == 64
        assert len(await plane.queue.fetch(64)) == 6


async def test_the_most_urgent_comes_first_and_equals_in_order() -> None:
    """Goal: priority decides, then age. Method: publish in another order, fetch one by one."""
    async with open_plane() as plane:
        priorities = [5, 1, 5, 3, 1]
        records = [a_record({"at": at}, priority=priority) for at, priority in enumerate(priorities)]
        await plane.queue.publish_many(records)
        order = [delivery.data["at"] for delivery in await plane.queue.fetch(5)]
        assert order == [1, 4, 3, 0, 2]


@pytest.mark.parametrize(
    ("move", "state"),
    [
        (None, RecordState.WAITING),
        (_keep, RecordState.ACTIVE),
        (_delay, RecordState.DELAYED),
        (_complete, RecordState.COMPLETED),
        (_fail, RecordState.FAILED),
    ],
)
async def test_publishing_a_kept_id_again_changes_nothing(
    move: Callable[[Plane, Delivery], Awaitable[None]] | None, state: RecordState
) -> None:
    """Goal: an id is added once, in whatever state it is. Method: bring it there, publish other data, compare all."""
    async with open_plane() as plane:
        record = a_record({"version": 1})
        await plane.queue.publish_many([record])
        if move is not None:
            [delivery] = await plane.queue.fetch(1)
            await move(plane, delivery)
        fields, counts = await _fields(plane, record), await plane.queue.counts()
        again = evolve(record, data={"version": 2})
        states = await plane.queue.publish_many([a_record(), again, again])
        assert states == [RecordState.WAITING, state, state]
        assert await _fields(plane, record) == fields
        assert await plane.queue.counts() == {**counts, "prioritized": counts["prioritized"] + 1}
        assert state.is_terminal == (state in {RecordState.COMPLETED, RecordState.FAILED})


async def test_a_trimmed_id_is_missing_and_may_be_published_again() -> None:
    """Goal: what BullMQ no longer keeps can be delivered again. Method: keep none, complete, look, publish."""
    async with open_plane(completed_kept=Kept(count=0, age_seconds=0)) as plane:
        delivery = await a_delivery(plane.queue, record := a_record())
        await _complete(plane, delivery)
        assert await plane.queue.states([record.delivery_id]) == [RecordState.MISSING]
        assert await plane.queue.publish_many([record]) == [RecordState.WAITING]


async def test_finished_records_stay_bounded() -> None:
    """Goal: Redis does not fill up. Method: keep 5, finish 20 of each kind, count the sets and the hashes."""
    kept = Kept(count=5, age_seconds=3600)
    async with open_plane(completed_kept=kept, failed_kept=kept) as plane:
        await plane.queue.publish_many([a_record() for _ in range(40)])
        taken = await plane.queue.fetch(40)
        assert {*await plane.queue.complete_many([Completion(each) for each in taken[:20]])} == {AckOutcome.COMPLETED}
        for each in taken[20:]:
            await _fail(plane, each)
        counts = await plane.queue.counts()
        assert (counts["completed"], counts["failed"], counts["active"]) == (5, 5, 0)
        hashes = await plane.raw("KEYS", "*-g1")
        assert len(hashes) == 10


async def test_a_stale_token_finishes_nothing() -> None:
    """Goal: only the current holder ends a delivery. Method: let the lock of A go, give it to B, let A try all ends."""
    async with open_plane() as plane:
        stale = await a_delivery(plane.queue)
        current = await _stolen(plane, stale)
        assert current.token != stale.token
        assert current.stalled_count == 1
        assert await plane.queue.complete_many([Completion(stale)]) == [AckOutcome.LOCK_LOST]
        assert await plane.queue.fail(stale, "late", retry=True) is AckOutcome.LOCK_LOST
        assert await plane.queue.fail(stale, "late", retry=False) is AckOutcome.LOCK_LOST
        assert await plane.queue.put_back(stale, delay_seconds=0) is AckOutcome.LOCK_LOST
        assert await plane.queue.extend([stale, current]) == {stale.delivery_id}
        assert await plane.queue.states([stale.delivery_id]) == [RecordState.ACTIVE]
        await _complete(plane, current)


async def test_one_bad_completion_spoils_no_other() -> None:
    """Goal: a batch is no unit of fate. Method: gone, stale, finished and good ones together; a bad result."""
    async with open_plane() as plane:
        await plane.queue.publish_many([a_record() for _ in range(4)])
        gone, stale, done, good = await plane.queue.fetch(4)
        await plane.raw("DEL", plane.key(gone.delivery_id), plane.key(f"{stale.delivery_id}:lock"))
        await _complete(plane, done)
        outcomes = await plane.queue.complete_many([Completion(each) for each in (gone, stale, done, good)])
        assert outcomes == [AckOutcome.GONE, AckOutcome.LOCK_LOST, AckOutcome.LOCK_LOST, AckOutcome.COMPLETED]
        assert [outcome.took_effect for outcome in outcomes] == [False, False, False, True]
        await plane.queue.publish_many([a_record() for _ in range(2)])
        first, second = await plane.queue.fetch(2)
        with pytest.raises(TypeError):
            await plane.queue.complete_many([Completion(first), Completion(second, result=object())])
        assert await plane.queue.complete_many([Completion(first), Completion(second)]) == [AckOutcome.COMPLETED] * 2


async def test_a_failed_attempt_is_retried_until_none_is_left() -> None:
    """Goal: BullMQ counts the attempts. Method: fail to the end, read counters, reason and state on the way."""
    async with open_plane() as plane:
        record = a_record(attempts=3)
        await plane.queue.publish_many([record])
        for made in range(3):
            await until(lambda: plane.queue.wait(1), what="the retry to be due")
            [delivery] = await plane.queue.fetch(1)
            assert delivery.attempts_made == made
            outcome = await plane.queue.fail(delivery, f"reason {made}", retry=True)
            assert outcome is (AckOutcome.RETRIED if made < 2 else AckOutcome.FAILED)
        assert await plane.queue.states([record.delivery_id]) == [RecordState.FAILED]
        assert await plane.raw("HGET", plane.key(record.delivery_id), "failedReason") == "reason 2"
        assert await plane.raw("HGET", plane.key(record.delivery_id), "stacktrace") == "[]"


async def test_the_backoff_doubles_and_half_of_it_is_random() -> None:
    """Goal: bounded exponential backoff with jitter. Method: read the delays that BullMQ stored, over many records."""
    async with open_plane() as plane:
        await plane.queue.publish_many([a_record(attempts=8, backoff_milliseconds=100_000) for _ in range(40)])
        first = [await _delay_after_failure(plane, each) for each in await plane.queue.fetch(40)]
        assert all(50_000 <= delay <= 100_000 for delay in first)
        assert len(set(first)) > 30
        third = await a_delivery(plane.queue, a_record(backoff_milliseconds=100_000))
        await plane.raw("HSET", plane.key(third.delivery_id), "atm", 2)
        third = await _stolen(plane, third)
        assert 200_000 <= await _delay_after_failure(plane, third) <= 400_000


@pytest.mark.parametrize("backoff", ['{"type":"unheard-of"}', '"soon"', '{"type":"fixed","delay":"1"}', "5", "null"])
async def test_a_backoff_that_another_producer_wrote_wrongly_does_not_wedge_the_record(backoff: str) -> None:
    """Goal: failing always works. Method: options that make the package itself raise and leave the record active."""
    async with open_plane() as plane:
        delivery = await a_delivery(plane.queue)
        options = f'{{"attempts":5,"backoff":{backoff}}}'
        await plane.raw("HSET", plane.key(delivery.delivery_id), "opts", options)
        delivery = await _stolen(plane, delivery)
        assert await plane.queue.fail(delivery, "no", retry=True) is AckOutcome.RETRIED
        [state] = await plane.queue.states([delivery.delivery_id])
        assert state in {RecordState.WAITING, RecordState.DELAYED}


@pytest.mark.parametrize("reason", ["\ud800 lone", "nul \x00", "x" * 100_000, ""])
async def test_any_reason_can_be_recorded(reason: str) -> None:
    """Goal: no text of an error leaves a record active. Method: texts that break encoders and limits."""
    async with open_plane() as plane:
        delivery = await a_delivery(plane.queue)
        assert await plane.queue.fail(delivery, reason, retry=False) is AckOutcome.FAILED
        stored = await plane.raw("HGET", plane.key(delivery.delivery_id), "failedReason")
        assert len(stored) <= REASON_LENGTH_MAX


async def test_putting_back_burns_no_attempt() -> None:
    """Goal: a soft stop costs nothing. Method: put back at once and take again; the counters stand still."""
    async with open_plane() as plane:
        delivery = await a_delivery(plane.queue, a_record(attempts=1))
        for _ in range(3):
            assert await plane.queue.put_back(delivery, delay_seconds=0) is AckOutcome.PUT_BACK
            assert await plane.queue.wait(1)
            [again] = await plane.queue.fetch(1)
            assert (again.delivery_id, again.attempts_made, again.stalled_count) == (delivery.delivery_id, 0, 0)
            assert again.token != delivery.token
            delivery = again


async def test_an_unrenewed_delivery_is_handed_out_again_under_another_token() -> None:
    """Goal: a vanished holder loses nothing (DLV-5). Method: fetch, forget, scan twice after the lock time, fetch."""
    async with open_plane(lock_seconds=0.3) as plane:
        orphan = await a_delivery(plane.queue)
        renewed = await a_delivery(plane.queue)
        recovered: list[str] = []
        began = trio.current_time()

        async def scanned() -> bool:
            assert await plane.queue.extend([renewed]) == set()
            recovered.extend(await plane.queue.recover_stalled())
            return bool(recovered)

        await until(scanned, seconds=3, what="the orphan to be recovered")
        assert recovered == [orphan.delivery_id]
        # The lock time, two scan intervals of 0.05 s, and what a loaded machine may add.
        assert 0.2 < trio.current_time() - began < 0.3 + 2 * 0.05 + 1
        assert await plane.queue.wait(1)
        [again] = await plane.queue.fetch(5)
        assert (again.delivery_id, again.stalled_count, again.deferred_failure) == (orphan.delivery_id, 1, None)
        assert await plane.queue.complete_many([Completion(orphan)]) == [AckOutcome.LOCK_LOST]
        assert await plane.queue.complete_many([Completion(again)]) == [AckOutcome.COMPLETED]
        assert await plane.queue.complete_many([Completion(renewed)]) == [AckOutcome.COMPLETED]


async def test_no_stall_count_condemns_a_record() -> None:
    """Goal: PostgreSQL owns the poison policy. Method: lose the holder many times, then see no deferred failure."""
    async with open_plane() as plane:
        delivery = await a_delivery(plane.queue)
        for count in range(1, 6):
            delivery = await _stolen(plane, delivery)
            assert (delivery.stalled_count, delivery.deferred_failure) == (count, None)


async def test_what_another_worker_condemned_is_seen() -> None:
    """Goal: `deferredFailure` is never missed. Method: set the field as a Node worker's stalled scan does."""
    async with open_plane() as plane:
        delivery = await a_delivery(plane.queue)
        await plane.raw("HSET", plane.key(delivery.delivery_id), "defa", "job stalled more than allowable limit")
        again = await _stolen(plane, delivery)
        assert again.deferred_failure == "job stalled more than allowable limit"


async def test_extend_tells_the_lost_from_the_held() -> None:
    """Goal: a holder learns what it lost. Method: one lock expired, one taken over, one record gone, one well."""
    async with open_plane(lock_seconds=20) as plane:
        await plane.queue.publish_many([a_record() for _ in range(4)])
        held = await plane.queue.fetch(4)
        expired, taken, gone, well = (each.delivery_id for each in held)
        await plane.raw("DEL", plane.key(f"{expired}:lock"), plane.key(gone), plane.key(f"{gone}:lock"))
        await plane.raw("SET", plane.key(f"{taken}:lock"), "another")
        await plane.raw("PEXPIRE", plane.key(f"{well}:lock"), 100)
        assert await plane.queue.extend(held) == {expired, taken, gone}
        assert await plane.raw("PTTL", plane.key(f"{well}:lock")) > 15_000
        assert await plane.queue.extend([]) == set()


async def test_a_total_loss_of_redis_harms_no_holder() -> None:
    """Goal: FLUSHALL under held deliveries is benign, repairable. Method: flush, end them, publish again, end again."""
    async with open_plane() as plane:
        records = [a_record() for _ in range(3)]
        await plane.queue.publish_many(records)
        held = await plane.queue.fetch(3)
        await plane.raw("FLUSHALL")
        assert await plane.queue.extend(held) == {each.delivery_id for each in held}
        assert await plane.queue.complete_many([Completion(held[0])]) == [AckOutcome.GONE]
        assert await plane.queue.fail(held[1], "late", retry=True) is AckOutcome.GONE
        assert await plane.queue.put_back(held[2], delay_seconds=1) is AckOutcome.GONE
        assert await plane.queue.states([records[0].delivery_id]) == [RecordState.MISSING]
        assert await plane.queue.publish_many(records) == [RecordState.WAITING] * 3
        assert await plane.queue.complete_many([Completion(held[0])]) == [AckOutcome.LOCK_LOST]
        again = await plane.queue.fetch(3)
        assert await plane.queue.complete_many([Completion(each) for each in again]) == [AckOutcome.COMPLETED] * 3


async def test_scripts_that_vanish_are_loaded_again() -> None:
    """Goal: SCRIPT FLUSH is no event. Method: flush before every kind of call, and see each do its work."""
    async with open_plane() as plane:
        records = [a_record() for _ in range(3)]
        await plane.raw("SCRIPT", "FLUSH")
        assert await plane.queue.publish_many(records) == [RecordState.WAITING] * 3
        await plane.raw("SCRIPT", "FLUSH")
        held = await plane.queue.fetch(3)
        assert len(held) == 3
        await plane.raw("SCRIPT", "FLUSH")
        assert await plane.queue.extend(held) == set()
        await plane.raw("SCRIPT", "FLUSH")
        assert await plane.queue.complete_many([Completion(held[0])]) == [AckOutcome.COMPLETED]
        await plane.raw("SCRIPT", "FLUSH")
        assert await plane.queue.fail(held[1], "no", retry=False) is AckOutcome.FAILED
        await plane.raw("SCRIPT", "FLUSH")
        assert await plane.queue.recover_stalled() == []
        assert (await plane.queue.counts())["active"] == 1


async def test_a_state_that_was_asked_for_too_early_is_asked_again() -> None:
    """Goal: a new record is never called missing. Method: Redis knows the state script and not yet the adding one."""
    async with open_plane() as plane:
        await plane.raw("SCRIPT", "FLUSH")
        await plane.queue.states([a_record().delivery_id])
        assert await plane.queue.publish_many([a_record(), a_record()]) == [RecordState.WAITING] * 2


async def test_an_evicted_record_is_damaged_and_can_be_ended() -> None:
    """Goal: an empty payload is never executed and never wedges. Method: delete the hash, fetch, fail for good."""
    async with open_plane() as plane:
        record = a_record({"amount": 1})
        await plane.queue.publish_many([record])
        await plane.raw("DEL", plane.key(record.delivery_id))
        [delivery] = await plane.queue.fetch(1)
        assert delivery.delivery_id == record.delivery_id
        assert delivery.damaged == "its name or data are gone (evicted or deleted)"
        assert delivery.data == {}
        assert await plane.queue.fail(delivery, delivery.damaged, retry=False) is AckOutcome.FAILED
        assert await plane.queue.states([record.delivery_id]) == [RecordState.FAILED]


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("data", "{", "its data are no JSON"),
        ("data", "[1]", "its data are no JSON object"),
        ("data", "[" * 100_000, "its data are no JSON"),
        ("opts", "nonsense", "its opts are no JSON"),
    ],
)
async def test_an_unreadable_record_is_damaged_and_can_be_ended(field: str, value: str, reason: str) -> None:
    """Goal: what nobody can read comes out once and ends. Method: spoil one field in Redis before the fetch."""
    async with open_plane() as plane:
        record = a_record()
        await plane.queue.publish_many([record])
        await plane.raw("HSET", plane.key(record.delivery_id), field, value)
        [delivery] = await plane.queue.fetch(1)
        assert delivery.damaged == reason
        assert await plane.queue.extend([delivery]) == set()
        assert await plane.queue.fail(delivery, "damaged", retry=False) is AckOutcome.FAILED


async def test_a_record_that_is_in_no_set_shows_as_missing_when_published() -> None:
    """Goal: a duplicate that BullMQ will never hand out is told. Method: lose the set, not the hash."""
    async with open_plane() as plane:
        record = a_record()
        await plane.queue.publish_many([record])
        await plane.raw("DEL", plane.key("prioritized"))
        assert await plane.queue.publish_many([record, a_record()]) == [RecordState.MISSING, RecordState.WAITING]


async def test_bytes_that_are_no_text_do_not_break_the_fetch_of_others() -> None:
    """Goal: one record cannot stop a queue. Method: raw bytes in a hash and in an id, among good records."""
    async with open_plane() as plane:
        record, spoilt = a_record(), a_record()
        await plane.queue.publish_many([record, spoilt])
        raw = b"\xff\xfe".decode("utf-8", "surrogateescape")
        await plane.raw("HSET", plane.key(spoilt.delivery_id), "data", raw)
        await plane.raw("LPUSH", plane.key("wait"), f"id-{raw}")
        taken = {each.delivery_id: each for each in await plane.queue.fetch(10)}
        assert taken[record.delivery_id].damaged is None
        assert taken[spoilt.delivery_id].damaged == "its data are no JSON"
        stranger = taken[f"id-{raw}"]
        assert stranger.damaged is not None
        assert await plane.queue.extend([*taken.values()]) == {stranger.delivery_id}
        assert await plane.queue.fail(stranger, "damaged", retry=False) is AckOutcome.FAILED


async def test_data_that_are_no_json_are_refused_before_anything_is_sent() -> None:
    """Goal: a bad record spoils no batch halfway. Method: NaN, a cycle and an object beside a good record."""
    async with open_plane() as plane:
        cycle: dict[str, object] = {}
        cycle["self"] = cycle
        for bad in ({"x": float("nan")}, {"x": object()}, cycle):
            with pytest.raises(RecordInvalid, match="no JSON"):
                await plane.queue.publish_many([a_record(), a_record(bad)])
        assert (await plane.queue.counts())["prioritized"] == 0


async def test_calls_are_bounded() -> None:
    """Goal: every batch has a named bound. Method: one more than the bound, and a fetch of none."""
    async with open_plane() as plane:
        with pytest.raises(ValueError, match="at most"):
            await plane.queue.publish_many([a_record()] * (BATCH_MAX + 1))
        with pytest.raises(ValueError, match="at most"):
            await plane.queue.states([""] * (BATCH_MAX + 1))
        for count in (0, BATCH_MAX + 1):
            with pytest.raises(ValueError, match="1 to"):
                await plane.queue.fetch(count)
        assert await plane.queue.publish_many([]) == []
        assert await plane.queue.complete_many([]) == []
        assert len(await plane.queue.publish_many([a_record() for _ in range(BATCH_MAX)])) == BATCH_MAX


async def test_keys_of_another_type_are_refused_not_retried() -> None:
    """Goal: a foreign key under our name is an error that names itself. Method: a string where a list belongs."""
    async with open_plane() as plane:
        await plane.raw("SET", plane.key("wait"), "mine")
        with pytest.raises(QueueRefused, match="WRONGTYPE"):
            await plane.queue.fetch(1)


async def test_a_paused_queue_hands_out_nothing() -> None:
    """Goal: BullMQ's own pause holds for us too. Method: the flag that every BullMQ client sets, then none."""
    async with open_plane() as plane:
        await plane.queue.publish_many([a_record()])
        await plane.raw("HSET", plane.key("meta"), "paused", 1)
        assert await plane.queue.fetch(5) == []
        await plane.raw("HDEL", plane.key("meta"), "paused")
        assert len(await plane.queue.fetch(5)) == 1


@pytest.mark.parametrize(("prefix", "name"), [("", "jobs"), ("p", ""), ("p", "a:b")])
def test_a_queue_name_that_bullmq_cannot_carry_is_refused(prefix: str, name: str) -> None:
    """Goal: no key of one queue is another's. Method: names that Node refuses."""
    with pytest.raises(ValueError, match="prefix"):
        DeliveryQueue(object(), prefix=prefix, name=name, lock_seconds=1)  # type: ignore[arg-type]


async def test_an_unknown_id_is_missing() -> None:
    """Goal: a lost record is seen. Method: ask for an id that never was."""
    async with open_plane() as plane:
        assert await plane.queue.states([f"{uuid4()}-g1"]) == [RecordState.MISSING]
        assert not RecordState.MISSING.is_terminal


async def _delay_after_failure(plane: Plane, delivery: Delivery) -> int:
    assert await plane.queue.fail(delivery, "no", retry=True) is AckOutcome.RETRIED
    return int(await plane.raw("HGET", plane.key(delivery.delivery_id), "delay"))


async def _stolen(plane: Plane, delivery: Delivery) -> Delivery:
    """The same record in another's hands, as after its lock ran out."""
    await plane.raw("DEL", plane.key(f"{delivery.delivery_id}:lock"))

    async def recovered() -> bool:
        return delivery.delivery_id in await plane.queue.recover_stalled()

    await until(recovered, what="the stalled scan to move the record")
    [again] = await plane.queue.fetch(1)
    assert again.delivery_id == delivery.delivery_id
    return again


async def _fields(plane: Plane, record: Record) -> dict[str, str]:
    flat = await plane.raw("HGETALL", plane.key(record.delivery_id))
    return dict(zip(flat[::2], flat[1::2], strict=True))
