"""The counter on a real node, and the job kinds that call it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpc import methods
from rpc.errors import Reverted
from tayho.kernel.address import Address
from tayho.kernel.jobs import Job, NotActionable
from tayho.kernel.json_document import Json
from tayho.kinds import Actionable, OnChainKind
from tayho.protocol import abi, counter
from tests.protocol.chain import COUNTER, Deployed, counter_on_anvil, send

FIRST, SECOND = b"\x01" * 32, b"\x02" * 32
SOMEWHERE = Address(b"\xab" * 20)
KINDS: tuple[OnChainKind, ...] = (counter.CounterRecord(), counter.CounterRecordOnce())


@pytest.fixture
async def deployed(tmp_path: Path) -> AsyncIterator[Deployed]:
    async with counter_on_anvil(tmp_path) as counter_there:
        yield counter_there


def job_of(kind: OnChainKind, request: Mapping[str, Json], job_id: UUID | None = None) -> Job:
    return Job(
        job_id=job_id or uuid4(),
        chain_id=31337,
        environment="test",
        role=kind.role,
        kind=kind.name,
        idempotency_key="key",
        request=request,
        generation=1,
        has_live_lineage=False,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


@pytest.mark.services
async def test_what_is_deployed_is_the_committed_code(deployed: Deployed) -> None:
    """Goal: the artifact's two bytecodes belong together. Method: deploy the one, read the other from the chain."""
    code = await deployed.endpoint.ask(methods.code(deployed.contract.value, "latest"))

    assert code == COUNTER.deployed_bytecode
    assert await deployed.view("count") == 0


@pytest.mark.services
async def test_every_record_is_an_event_and_duplicates_are_visible(deployed: Deployed) -> None:
    """Goal: the logs alone tell how often a job took effect. Method: three records of two ids from two accounts."""
    await deployed.record(FIRST)
    await deployed.record(SECOND, account=1)
    await deployed.record(FIRST)

    events = [counter.read_recorded(log.topics, log.data) for log in await deployed.logs()]

    sender, other = deployed.accounts[:2]
    assert [(event.event_id, event.sender, event.count) for event in events] == [
        (FIRST, sender, 1),
        (SECOND, other, 2),
        (FIRST, sender, 3),
    ]
    assert await deployed.view("count") == 3
    assert await deployed.view("recorded", FIRST) is True
    assert await deployed.view("recorded", b"\x03" * 32) is False


@pytest.mark.services
async def test_a_second_record_once_reverts_in_simulation_with_its_reason(deployed: Deployed) -> None:
    """Goal: a repeated call is found out before it is signed. Method: estimate it before and after a plain record."""
    estimate = methods.estimate_gas(deployed.request("recordOnce", FIRST))
    assert await deployed.endpoint.ask(estimate) > 21_000

    await deployed.record(FIRST)

    with pytest.raises(Reverted) as refused:
        await deployed.endpoint.ask(estimate)
    reason = abi.decode_error(COUNTER, refused.value.data)
    assert reason is not None
    assert (reason.name, reason.values) == ("AlreadyRecorded", {"jobId": FIRST})


@pytest.mark.services
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
async def test_the_call_of_a_kind_records_its_own_job(kind: OnChainKind, deployed: Deployed) -> None:
    """Goal: one job, one event id. Method: send what the kind says, look for the job's id in the log."""
    job = job_of(kind, {"contract": deployed.contract.checksummed})
    assert await kind.revalidate(job, deployed.endpoint) == Actionable()

    call = await kind.call(job)
    receipt = await send(deployed.endpoint, deployed.accounts[0], call.to, call.data)

    (log,) = receipt.logs
    assert receipt.succeeded
    assert counter.read_recorded(log.topics, log.data).event_id == counter.event_id(job.job_id)
    assert call.value_wei == 0


@pytest.mark.services
async def test_only_record_once_stops_wanting_a_recorded_id(deployed: Deployed) -> None:
    """Goal: revalidation reads the chain's present state. Method: both kinds, before and after the id is recorded."""
    record, record_once = KINDS
    request: Mapping[str, Json] = {"contract": deployed.contract.checksummed, "job": f"0x{FIRST.hex()}"}
    assert await record_once.revalidate(job_of(record_once, request), deployed.endpoint) == Actionable()

    await deployed.record(FIRST)

    ended = await record_once.revalidate(job_of(record_once, request), deployed.endpoint)
    assert isinstance(ended, NotActionable)
    assert FIRST.hex() in ended.reason
    assert await record.revalidate(job_of(record, request), deployed.endpoint) == Actionable()


@pytest.mark.services
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
async def test_an_address_without_a_counter_is_never_called(kind: OnChainKind, deployed: Deployed) -> None:
    """Goal: no job completes by calling nothing. Method: revalidate against an address that holds no code."""
    with pytest.raises(abi.ResultRefused, match="Counter"):
        await kind.revalidate(job_of(kind, {"contract": SOMEWHERE.checksummed}), deployed.endpoint)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
async def test_the_same_job_always_gives_the_same_call(kind: OnChainKind) -> None:
    """Goal: every attempt signs the same effect (I2). Method: ask twice; compare with bytes made by hand."""
    job = job_of(kind, {"contract": SOMEWHERE.checksummed}, UUID(int=7))

    first, again = await kind.call(job), await kind.call(job)

    selector = {"counter.record": "b5c645bd", "counter.record_once": "c0a3e2b7"}[kind.name]
    assert first == again
    assert (first.to, first.value_wei) == (SOMEWHERE, 0)
    assert first.data == bytes.fromhex(selector) + (7).to_bytes(32, "big")


async def test_an_event_id_can_be_named() -> None:
    """Goal: two jobs can be made to collide on purpose. Method: two jobs with one named id give one call."""
    kind = counter.CounterRecord()
    request: Mapping[str, Json] = {"contract": SOMEWHERE.checksummed.lower(), "job": f"0x{SECOND.hex()}"}

    calls = [await kind.call(job_of(kind, request)) for _ in range(2)]

    assert calls[0] == calls[1]
    assert calls[0].data.endswith(SECOND)


@pytest.mark.parametrize(
    ("request_", "named"),
    [
        ({}, "contract"),
        ({"contract": None}, "contract"),
        ({"contract": 7}, "contract"),
        ({"contract": "0x12"}, "contract"),
        ({"contract": "0x" + "zz" * 20}, "contract"),
        ({"contract": SOMEWHERE.checksummed.swapcase().replace("0X", "0x")}, "checksum"),
        ({"contract": str(SOMEWHERE), "job": FIRST.hex()}, "event id"),
        ({"contract": str(SOMEWHERE), "job": f"0x{FIRST.hex()[:-2]}"}, "event id"),
        ({"contract": str(SOMEWHERE), "job": f"0x{FIRST.hex()[:-3]} 01"}, "event id"),
        ({"contract": str(SOMEWHERE), "job": f"0x{FIRST.hex()}\n"}, "event id"),
        ({"contract": str(SOMEWHERE), "job": 1}, "event id"),
        ({"contract": str(SOMEWHERE), "jobs": "0x"}, "jobs"),
    ],
    ids=str,
)
async def test_a_malformed_request_is_refused_by_name(request_: Mapping[str, Json], named: str) -> None:
    """Goal: nothing is guessed from a request. Method: one malformed member each; no node is asked."""
    kind = counter.CounterRecord()

    with pytest.raises(counter.CounterRequestRefused, match=named):
        await kind.call(job_of(kind, request_))


@given(job_ids=st.sets(st.uuids(), max_size=10))
def test_event_ids_are_as_distinct_as_jobs(job_ids: set[UUID]) -> None:
    """Goal: two jobs never share an event. Method: the id can be read back from its event id."""
    event_ids = {counter.event_id(job_id) for job_id in job_ids}

    assert all(len(event_id) == 32 for event_id in event_ids)
    assert {UUID(bytes=event_id[16:]) for event_id in event_ids} == job_ids


def test_the_kinds_are_plug_ins() -> None:
    """Goal: the example fits the public interface. Method: instance checks, and names that tell the kinds apart."""
    assert all(isinstance(kind, OnChainKind) for kind in KINDS)
    assert len({kind.name for kind in KINDS}) == len(KINDS)
