"""LISTEN brings every notification, and its loss is an error, never silence."""

from contextlib import AbstractAsyncContextManager

import pytest
import trio

from storage import listener
from storage.database import Database
from storage.errors import StoreUnavailable
from tests.services.proxy import fault_proxy
from tests.storage.activity import elsewhere, terminate_others
from tests.waiting import until

LISTENING = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()"


class Listening:
    """A task that listens, what it heard, and how it ended."""

    def __init__(self, database: Database, *channels: str, heartbeat_seconds: float = 10) -> None:
        self.heard: list[tuple[str, str]] = []
        self.error: Exception | None = None
        self._database = database
        self._channels = channels
        self._heartbeat_seconds = heartbeat_seconds

    async def run(self) -> None:
        try:
            await self._database.listen(self._channels, self.notified, heartbeat_seconds=self._heartbeat_seconds)
        except (StoreUnavailable, KeyError) as error:
            self.error = error

    def notified(self, channel: str, payload: str) -> None:
        if payload == "raise":
            raise KeyError(payload)
        self.heard.append((channel, payload))

    async def has_begun(self, url: str) -> None:
        async with Database.open(url, pool_size=1, application_name="tests") as database:

            async def listens() -> bool:
                async with database.connection() as connection:
                    return await connection.fetchval(LISTENING) is not None

            await until(listens, what="somebody listens")


def _opened(url: str) -> AbstractAsyncContextManager[Database]:
    return Database.open(url, pool_size=1, application_name="tests")


async def test_notifications_arrive_in_order(database_url: str, bridge: None) -> None:
    """Goal: every notification of every channel arrives once, in order, without a connection of the pool.

    Method: notify two channels, one of them with a name that needs quoting, while the pool's only place is taken.
    """
    async with _opened(database_url) as database, database.connection(), trio.open_nursery() as tasks:
        listening = Listening(database, "jobs", "Other channel")
        tasks.start_soon(listening.run)
        await listening.has_begun(database_url)
        await elsewhere(database_url, "NOTIFY jobs, '1'; NOTIFY \"Other channel\"; NOTIFY jobs, '2'")
        await until(lambda: len(listening.heard) == 3)
        assert listening.heard == [("jobs", "1"), ("Other channel", ""), ("jobs", "2")]
        tasks.cancel_scope.cancel()
    assert listening.error is None


async def test_killed_connection_ends_the_task(database_url: str, bridge: None) -> None:
    """Goal: a lost LISTEN connection ends the task with StoreUnavailable at once. Method: terminate its backend."""
    async with _opened(database_url) as database, trio.open_nursery() as tasks:
        listening = Listening(database, "jobs")
        tasks.start_soon(listening.run)
        await listening.has_begun(database_url)
        await terminate_others(database_url)
        await until(lambda: listening.error)
        assert isinstance(listening.error, StoreUnavailable)


async def test_silent_connection_is_noticed(database_url: str, bridge: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a peer that vanished without a word is noticed within heartbeat and answer time.

    Method: freeze the way to the server; with it thawed, heartbeats alone never end the task.
    """
    monkeypatch.setattr(listener, "ANSWER_SECONDS", 0.2)
    async with (
        fault_proxy(database_url) as proxy,
        _opened(proxy.url_for(database_url)) as database,
        trio.open_nursery() as tasks,
    ):
        listening = Listening(database, "jobs", heartbeat_seconds=0.05)
        tasks.start_soon(listening.run)
        await listening.has_begun(database_url)
        await elsewhere(database_url, "NOTIFY jobs, 'after some heartbeats'")
        await until(lambda: listening.heard)
        proxy.freeze()
        await until(lambda: listening.error)
        assert isinstance(listening.error, StoreUnavailable)
        proxy.thaw()


async def test_error_of_the_callback_ends_the_task(database_url: str, bridge: None) -> None:
    """Goal: an error of `notified` is raised in the task and not lost in asyncio. Method: raise in it."""
    async with _opened(database_url) as database, trio.open_nursery() as tasks:
        listening = Listening(database, "jobs")
        tasks.start_soon(listening.run)
        await listening.has_begun(database_url)
        await elsewhere(database_url, "NOTIFY jobs, 'raise'")
        await until(lambda: listening.error)
        assert isinstance(listening.error, KeyError)


async def test_too_many_notifications_end_the_task(
    database_url: str, bridge: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: what cannot be held is a loss that is told, not memory without bound.

    Method: no room at all, and one transaction with 1,000 notifications.
    """
    monkeypatch.setattr(listener, "NOTICES_MAX", 0)
    async with _opened(database_url) as database, trio.open_nursery() as tasks:
        listening = Listening(database, "jobs")
        tasks.start_soon(listening.run)
        await listening.has_begun(database_url)
        await elsewhere(database_url, "SELECT pg_notify('jobs', n::text) FROM generate_series(1, 1000) AS n")
        await until(lambda: listening.error)
        assert isinstance(listening.error, StoreUnavailable)
        assert len(listening.heard) < 1000
