"""LISTEN on a connection of its own. A lost one is the end of the task, never silence."""

from collections.abc import Callable, Sequence
from typing import Final

import trio

from nursery.asyncio_bridge import run_asyncio
from storage.connection import Connection
from storage.errors import StoreUnavailable
from storage.queries import scalar
from storage.translation import TRANSLATED, cause_of

# TCP does not tell of a peer that vanished: only a question that stays unanswered does.
HEARTBEAT_SECONDS: Final = 10.0
ANSWER_SECONDS: Final = 5.0
# A bound that a listener reaches only when its process is stuck.
NOTICES_MAX: Final = 10_000

_answer = scalar("storage/listener.answer")


async def listen(
    connection: Connection, channels: Sequence[str], notified: Callable[[str, str], None], heartbeat_seconds: float
) -> None:
    """Call `notified(channel, payload)` for every notification, until cancelled.

    Raises:
        StoreUnavailable: the connection was lost, was silent for a heartbeat, or brought more than can be held.
    """
    arriving, notices = trio.open_memory_channel[tuple[str, str]](NOTICES_MAX)

    # asyncpg calls these two between the turns of our task: they only hand over, and an error of `notified` is
    # raised in the task, not lost in asyncio's exception handler.
    def arrived(_connection: object, _process: int, channel: str, payload: str) -> None:
        try:
            arriving.send_nowait((channel, payload))
        except trio.WouldBlock:
            arriving.close()
        except trio.ClosedResourceError:
            pass  # It is over, and the task will find out when it has taken the notices that came before.

    def ended(_connection: object) -> None:
        arriving.close()

    connection.raw.add_termination_listener(ended)
    for channel in channels:
        await _add_listener(connection, channel, arrived)
    while True:
        with trio.move_on_after(heartbeat_seconds) as quiet:
            try:
                notified(*await notices.receive())
            except trio.EndOfChannel as error:
                raise StoreUnavailable("the LISTEN connection to PostgreSQL was lost.") from error
        if quiet.cancelled_caught:
            await _heartbeat(connection)


async def _add_listener(connection: Connection, channel: str, arrived: Callable[[object, int, str, str], None]) -> None:
    try:
        await run_asyncio(connection.raw.add_listener, channel, arrived)
    except TRANSLATED as error:
        refusal = connection.refusal(error, commits=False)
        if refusal is None:
            raise
        raise refusal from cause_of(error)


async def _heartbeat(connection: Connection) -> None:
    with trio.move_on_after(ANSWER_SECONDS):
        await _answer(connection)
        return
    raise StoreUnavailable(f"the LISTEN connection to PostgreSQL gave no answer for {ANSWER_SECONDS:g} s.")
