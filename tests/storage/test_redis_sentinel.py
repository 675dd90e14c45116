"""The delivery queue over Sentinel while masters are replaced, killed, frozen and demoted."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import pytest
import trio

from nursery.asyncio_bridge import open_bridge
from storage.delivery import DeliveryQueue
from storage.errors import QueueUnavailable, StorageError
from storage.records import AckOutcome, Completion, Delivery, RecordState
from storage.redis_client import RedisServer, open_redis
from tests.storage.delivery_plane import a_record, queue_on
from tests.storage.redis_process import running_redis
from tests.storage.redis_sentinel import SERVICE, SentinelService, running_sentinel, running_sentinel_of
from tests.waiting import until

pytestmark = pytest.mark.services

# What a sentinel that counts a server as down after half a second needs for a failover on a busy machine.
FAILOVER_SECONDS = 20


@asynccontextmanager
async def _service(*, command_seconds: float = 2) -> AsyncGenerator[tuple[SentinelService, RedisServer]]:
    async with (
        running_sentinel() as service,
        open_bridge(),
        open_redis(service.url, command_seconds=command_seconds) as server,
    ):
        yield service, server


async def test_waits_on_several_queues_survive_a_forced_failover() -> None:
    """Goal: a planned failover costs workers a moment. Method: block on three queues, fail over, publish in each.

    The replaced master lives, takes writes and tells its waiting clients nothing for about ten seconds; what it took
    is published again under its id, as the delivery check does.
    """
    async with _service() as (service, server):
        queues = [queue_on(server, name=f"queue-{at}") for at in range(3)]
        records = {queue.name: a_record() for queue in queues}
        taken: dict[str, str] = {}
        # A connection to the first master for commands, too.
        await queues[0].counts()

        async def all_taken() -> bool:
            for queue in queues:
                with suppress(StorageError):
                    await queue.publish_many([records[queue.name]])
            return len(taken) == len(queues)

        async with trio.open_nursery() as workers:
            for queue in queues:
                workers.start_soon(_take_one, queue, taken)
            await until(lambda: _blocked(service, 3), what="three blocked clients")
            await service.fail_over()
            await until(all_taken, seconds=5, what="every worker to resume on the new master")
        assert taken == {name: record.delivery_id for name, record in records.items()}
        assert (await service.second.ask("ROLE"))[0] == "master"
        assert await server.check() == []


async def test_a_killed_master_loses_no_replicated_record_and_doubles_no_acknowledged_one() -> None:
    """Goal: what Redis had replicated goes on where it was. Method: kill with records in every state; finish all."""
    async with _service() as (service, server):
        queue = queue_on(server)
        records = [a_record() for _ in range(30)]
        await queue.publish_many(records)
        done, held = await queue.fetch(5), await queue.fetch(5)
        assert await queue.complete_many([Completion(each) for each in done]) == [AckOutcome.COMPLETED] * 5
        await service.replicated()
        await service.first.kill()
        rest: list[Delivery] = []

        async def all_taken() -> bool:
            try:
                await queue.wait(1)
                rest.extend(await queue.fetch(64))
            except StorageError:
                return False
            return len(rest) >= 20

        await until(all_taken, seconds=FAILOVER_SECONDS, what="the rest from the new master")
        ids = [each.delivery_id for each in (*done, *held, *rest)]
        assert sorted(ids) == sorted(each.delivery_id for each in records)
        assert await queue.extend(held) == set()
        assert await queue.complete_many([Completion(each) for each in (*held, *rest)]) == [AckOutcome.COMPLETED] * 25
        assert await queue.publish_many(records) == [RecordState.COMPLETED] * 30
        assert await queue.fetch(64) == []


async def test_idle_connections_to_a_frozen_master_are_left_and_cost_nothing() -> None:
    """Goal: a master that went silent is not tried connection by connection.

    Method: five connections, freeze the master until the sentinel has replaced it; five calls at once all work.
    """
    async with _service(command_seconds=1) as (service, server):
        queue = queue_on(server)
        async with trio.open_nursery() as calls:
            for _ in range(5):
                calls.start_soon(queue.counts)
        await service.replicated()
        service.first.freeze()
        await until(service.second_is_master, seconds=FAILOVER_SECONDS, what="the failover")
        async with trio.open_nursery() as calls:
            for _ in range(5):
                calls.start_soon(queue.counts)


async def test_a_demoted_master_is_written_to_no_more() -> None:
    """Goal: READONLY means not executed, and leave. Method: demote under an open connection while nobody may tell us
    of it; the first call is refused by the server, the second has no connection to it left."""
    async with _service() as (service, server):
        queue = queue_on(server)
        await queue.publish_many([a_record()])
        await service.replicated()
        service.sentinel.freeze()
        await service.second.ask("REPLICAOF", "NO", "ONE")
        await service.first.ask("REPLICAOF", "127.0.0.1", service.second.port)
        with pytest.raises(QueueUnavailable, match="cannot do the work now"):
            await queue.publish_many([a_record()])
        with pytest.raises(QueueUnavailable, match="cannot be reached"):
            await queue.publish_many([a_record()])
        assert (await service.second.ask("INFO", "keyspace")).count("keys=") == 1
        service.sentinel.thaw()


async def test_a_sentinel_that_is_behind_the_times_is_not_believed() -> None:
    """Goal: no connection to a replica. Method: a sentinel that names one, alone; then before one that knows better."""
    async with running_sentinel() as service, running_sentinel_of(service.second.port) as stale, open_bridge():
        async with open_redis(f"redis+sentinel://127.0.0.1:{stale.port}/{SERVICE}") as server:
            [problem] = await server.check()
            assert "which is a replica" in problem
        url = f"redis+sentinel://127.0.0.1:{stale.port},127.0.0.1:{service.sentinel.port}/{SERVICE}"
        async with open_redis(url) as server:
            assert await server.check() == []
            assert await queue_on(server).publish_many([a_record()]) == [RecordState.WAITING]


async def test_a_silent_sentinel_is_passed_over_the_next_time() -> None:
    """Goal: one dead guide stops nothing. Method: a frozen sentinel first, and deadlines too short to wait for it."""
    async with (
        running_redis() as master,
        running_sentinel_of(master.port) as silent,
        running_sentinel_of(master.port) as living,
        open_bridge(),
    ):
        silent.freeze()
        url = f"redis+sentinel://127.0.0.1:{silent.port},127.0.0.1:{living.port}/{SERVICE}"
        async with open_redis(url, command_seconds=0.8) as server:
            [problem] = await server.check()
            assert "did not answer in time" in problem
            assert await server.check() == []


async def test_what_the_url_gets_wrong_is_told() -> None:
    """Goal: one clear sentence each. Method: another service's name; a sentinel given for a server; passwords."""
    async with (
        running_redis() as master,
        running_sentinel_of(master.port) as open_to_all,
        running_sentinel_of(master.port, "--requirepass", "of-the-sentinel") as guarded,
        open_bridge(),
    ):
        form = f"redis+sentinel://127.0.0.1:{guarded.port}/{SERVICE}"
        told = {
            f"redis+sentinel://127.0.0.1:{open_to_all.port}/other": "knows no service other",
            open_to_all.url: "write REDIS_URL as redis+sentinel://",
            form: "uthentication",
            f"{form}?sentinel_password=wrong-one": "assword",
        }
        for url, words in told.items():
            async with open_redis(url) as server:
                [problem] = await server.check()
                assert words in problem
                assert "wrong-one" not in problem
        async with open_redis(f"{form}?sentinel_password=of-the-sentinel") as server:
            assert await server.check() == []


async def _take_one(queue: DeliveryQueue, taken: dict[str, str]) -> None:
    """Wait and fetch, over whatever refusals, until one delivery was had."""

    async def had() -> bool:
        try:
            await queue.wait(10)
            for delivery in await queue.fetch(1):
                taken[queue.name] = delivery.delivery_id
        except StorageError:
            return False
        return queue.name in taken

    await until(had, seconds=FAILOVER_SECONDS, what=f"a delivery of {queue.name}")


async def _blocked(service: SentinelService, clients: int) -> bool:
    return await service.first.blocked_clients() == clients
