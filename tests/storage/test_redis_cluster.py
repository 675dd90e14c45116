"""The delivery queue on a cluster while its slot moves and its node dies."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
from attrs import frozen
from redis.crc import key_slot

from nursery.asyncio_bridge import open_bridge
from storage.delivery import DeliveryQueue
from storage.errors import QueueUnavailable, ReplyLost, StorageError
from storage.records import Completion, RecordState
from storage.redis_client import RedisServer, open_redis
from storage.redis_cluster import is_in_one_slot
from tests.storage.delivery_plane import PREFIX, a_record, queue_on
from tests.storage.redis_cluster import RedisCluster, running_cluster
from tests.storage.redis_process import RedisProcess, running_redis
from tests.waiting import until

pytestmark = pytest.mark.services


@frozen
class _Moving:
    """A queue's slot at its source, and the node that it may be moved to."""

    cluster: RedisCluster
    server: RedisServer
    source: int
    target: int

    @property
    def queue(self) -> DeliveryQueue:
        return queue_on(self.server)


@asynccontextmanager
async def _moving() -> AsyncGenerator[_Moving]:
    async with running_cluster() as cluster, open_bridge(), open_redis(cluster.url, command_seconds=2) as server:
        source = cluster.owner_of(PREFIX)
        yield _Moving(cluster, server, source, (source + 1) % len(cluster.servers))


async def test_a_moved_slot_is_followed_without_a_refusal() -> None:
    """Goal: MOVED is no error. Method: use, move, and use every kind of call on with what was known before."""
    async with _moving() as moving:
        records = [a_record() for _ in range(20)]
        await moving.queue.publish_many(records)
        queue = moving.queue
        held = await queue.fetch(5)
        await moving.cluster.move(PREFIX, moving.source, moving.target)
        assert await queue.publish_many(records) == [RecordState.ACTIVE] * 5 + [RecordState.WAITING] * 15
        await moving.cluster.move(PREFIX, moving.target, moving.source)
        assert await queue.extend(held) == set()
        await moving.cluster.move(PREFIX, moving.source, moving.target)
        rest = await queue.fetch(64)
        assert len(rest) == 15
        await moving.cluster.move(PREFIX, moving.target, moving.source)
        outcomes = await queue.complete_many([Completion(each) for each in (*held, *rest)])
        assert [outcome.took_effect for outcome in outcomes] == [True] * 20
        assert await moving.server.check() == []


async def test_nothing_is_lost_or_doubled_while_the_slot_is_moved_under_work() -> None:
    """Goal: a reshard in the middle of work. Method: publish and work all along, over three moves key by key; each
    record is completed once."""
    async with _moving() as moving:
        published: list[str] = []
        completed: list[str] = []

        async def work() -> None:
            queue = queue_on(moving.server, lock_seconds=1)
            while True:
                try:
                    await queue.recover_stalled()
                    await queue.wait(0.05)
                    held = await queue.fetch(3)
                    outcomes = await queue.complete_many([Completion(each) for each in held])
                    pairs = zip(held, outcomes, strict=True)
                    completed.extend(each.delivery_id for each, outcome in pairs if outcome.took_effect)
                except StorageError:
                    await trio.lowlevel.checkpoint()

        async def publish() -> None:
            record = a_record()
            published.append(record.delivery_id)

            async def taken() -> bool:
                try:
                    return await moving.queue.publish_many([record]) != [RecordState.MISSING]
                except StorageError:
                    return False

            await until(taken, seconds=10, what="the record to be taken")

        async def move(source: int, target: int) -> None:
            await moving.cluster.begin_move(PREFIX, source, target)
            while await moving.cluster.move_keys(PREFIX, source, target, count=1):
                await trio.lowlevel.checkpoint()
            await moving.cluster.end_move(PREFIX, target)

        async with trio.open_nursery() as working:
            for _ in range(2):
                working.start_soon(work)
            for turn in range(3):
                source, target = (moving.source, moving.target)[:: -1 if turn % 2 else 1]
                async with trio.open_nursery() as moves:
                    moves.start_soon(move, source, target)
                    for _ in range(10):
                        await publish()

            async def all_done() -> bool:
                finished = await moving.queue.states(published)
                return all(state is RecordState.COMPLETED for state in finished)

            await until(all_done, seconds=20, what="every record to be completed")
            working.cancel_scope.cancel()
        assert len(set(completed)) == len(completed)


async def test_a_slot_on_its_way_is_asked_for_key_by_key() -> None:
    """Goal: ASK is followed for its command alone. Method: one of two keys moved; read both, and write a third."""
    async with _moving() as moving:
        keys = [f"{PREFIX}:{at}" for at in range(3)]
        await moving.server.ask([("SET", keys[0], "here"), ("SET", keys[1], "there")])
        await moving.cluster.begin_move(PREFIX, moving.source, moving.target)
        source, target = (moving.cluster.servers[at] for at in (moving.source, moving.target))
        await source.ask("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", keys[1])
        reads = [("GET", key) for key in keys]
        for _ in range(2):
            assert await moving.server.ask([*reads, ("SET", keys[2], "new")]) in (
                ["here", "there", None, "OK"],
                ["here", "there", "new", "OK"],
            )
        assert await source.ask("DBSIZE") == 1
        # Keys of one command on both nodes: neither can serve it, and nothing is done.
        [torn] = await moving.server.ask([("MGET", *keys)])
        assert isinstance(torn, QueueUnavailable)


async def test_a_script_that_meets_a_key_of_another_node_is_unknown() -> None:
    """Goal: what a broken script had done by then is not taken for undone. Method: it writes, then reads elsewhere."""
    async with _moving() as moving:
        script = "redis.call('SET', KEYS[1], 'half') return redis.call('GET', ARGV[1])"
        foreign = _prefix_on(moving.cluster, moving.target)
        [reply] = await moving.server.ask([("EVAL", script, 1, f"{PREFIX}:a", foreign)])
        assert isinstance(reply, ReplyLost)
        assert await moving.server.ask_one(("GET", f"{PREFIX}:a")) == "half"


async def test_a_wait_goes_with_its_slot() -> None:
    """Goal: a blocked intake is not left behind. Method: block, move the slot away, publish; it wakes in time."""
    async with _moving() as moving:
        with trio.fail_after(10):
            async with trio.open_nursery() as tasks:
                woken = trio.Event()

                async def wait() -> None:
                    assert await queue.wait(10)
                    woken.set()

                queue = moving.queue
                tasks.start_soon(wait)
                await until(lambda: _blocked(moving, moving.source), what="a client blocked at the source")
                await moving.cluster.move(PREFIX, moving.source, moving.target)
                await until(lambda: _blocked(moving, moving.target), what="a client blocked at the target")
                await moving.queue.publish_many([a_record()])
                await woken.wait()
        assert len(await queue.fetch(5)) == 1


async def test_a_dead_node_stops_its_own_queues_until_its_replica_takes_over() -> None:
    """Goal: one node's death is one node's outage. Method: kill the owner; another queue works; promote; both do."""
    async with _moving() as moving:
        cluster, queue = moving.cluster, moving.queue
        elsewhere = queue_on(moving.server, prefix=_prefix_on(cluster, moving.target))
        async with cluster.replica_of(moving.source) as replica:
            await queue.publish_many([a_record()])
            await elsewhere.publish_many([a_record()])
            await until(lambda: _has_keys(replica), seconds=15, what="the replica to have the queue")
            await cluster.servers[moving.source].kill()
            with pytest.raises(QueueUnavailable):
                await queue.counts()
            assert len(await elsewhere.fetch(1)) == 1
            await replica.ask("CLUSTER", "FAILOVER", "TAKEOVER")

            async def taken() -> bool:
                try:
                    return len(await queue.fetch(1)) == 1
                except StorageError:
                    return False

            await until(taken, seconds=15, what="the record from the promoted replica")


async def test_what_does_not_fit_a_cluster_is_refused() -> None:
    """Goal: no scattered queue, no half-working URL. Method: prefixes without a tag; a node for a server; both."""
    async with running_cluster() as cluster, running_redis() as single, open_bridge():
        async with open_redis(cluster.url) as server:
            for prefix in ("tayho", "{}tayho", "tay}ho{", "{tayho"):
                with pytest.raises(ValueError, match="QUEUE_PREFIX"):
                    queue_on(server, prefix=prefix)
            assert await queue_on(server, prefix="{tayho}", name="one").publish_many([a_record()])
        async with open_redis(cluster.servers[0].url) as server:
            [problem] = await server.check()
            assert "write REDIS_URL as redis+cluster://" in problem
        async with open_redis(f"redis+cluster://127.0.0.1:{single.port}") as server:
            [problem] = await server.check()
            assert "cluster support disabled" in problem


@pytest.mark.parametrize(
    ("beginning", "shares"),
    [("{a}:q:", True), ("a{b}:q:", True), ("a:{q}:", True), ("a:q:", False), ("{}{a}:q:", False), ("a}{:q:", False)],
)
def test_a_hash_tag_is_what_redis_takes_for_one(beginning: str, shares: bool) -> None:
    """Goal: our reading of braces is Redis' own. Method: redis-py's slots of many keys with each beginning."""
    assert is_in_one_slot(beginning) is shares
    assert (len({key_slot(f"{beginning}{at}".encode()) for at in range(50)}) == 1) is shares


def _prefix_on(cluster: RedisCluster, node: int) -> str:
    """A prefix whose queues are on this node."""
    return next(prefix for prefix in (f"{{test-{at}}}" for at in range(100)) if cluster.owner_of(prefix) == node)


async def _has_keys(server: RedisProcess) -> bool:
    return await server.ask("DBSIZE") > 0


async def _blocked(moving: _Moving, node: int) -> bool:
    return await moving.cluster.servers[node].blocked_clients() == 1
