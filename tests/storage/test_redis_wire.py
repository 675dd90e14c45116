"""One exchange over a scripted connection: what is believed of each command when the connection fails at each step."""

from collections.abc import Iterable
from typing import Any

import pytest
from attrs import define, field
from redis.exceptions import (
    BusyLoadingError,
    ClusterDownError,
    ConnectionError,  # noqa: A004
    MasterDownError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
)

from storage.errors import QueueUnavailable, ReplyLost
from storage.redis_wire import Deposed, Exchange, QueueRefused, ScriptMissing


@define
class _Connection:
    """Answers from a list, in which an exception is raised."""

    answers: list[object]
    healthy: bool = True
    did: list[str] = field(factory=list[str])

    async def connect(self) -> None:
        self.did.append("connect")

    async def disconnect(self, nowait: bool = False) -> None:
        self.did.append("disconnect")

    async def check_health(self) -> None:
        if not self.healthy:
            raise ConnectionError("no PONG")

    async def send_packed_command(self, command: Iterable[bytes], check_health: bool = True) -> None:
        assert not check_health
        self.did.append("send")

    async def read_response(self) -> Any:
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


@define
class _Pool:
    connection: _Connection
    released: int = 0

    async def get_connection(self) -> _Connection:
        return self.connection

    async def release(self, connection: _Connection) -> None:
        assert connection is self.connection
        self.released += 1

    async def aclose(self) -> None:
        """Nothing is open."""


async def _ran(connection: _Connection, count: int) -> list[object]:
    """The outcome of `count` commands over this connection."""
    pool = _Pool(connection)
    exchange = Exchange([["PING"]] * count)
    cause: Exception | None = None
    try:
        await exchange.run(pool)
    except (ConnectionError, OSError) as error:
        cause = error
    assert pool.released == 1
    return exchange.outcome(cause, "here")


async def test_every_command_has_its_own_reply_or_refusal() -> None:
    """Goal: an error reply concerns its command alone. Method: errors of each kind among replies."""
    answers = [1, NoScriptError("no such"), ResponseError("WRONGTYPE a key"), OutOfMemoryError("full"), "last"]
    connection = _Connection([*answers])
    one, missing, refused, full, last = await _ran(connection, 5)
    assert (one, last) == (1, "last")
    assert [type(each) for each in (missing, refused, full)] == [ScriptMissing, QueueRefused, QueueUnavailable]
    assert connection.did == ["send"]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ReadOnlyError("You can't write against a read only replica."), Deposed),
        (ResponseError("UNBLOCKED force unblock from blocking operation"), Deposed),
        (ResponseError("MISCONF Redis is configured to save RDB snapshots"), QueueUnavailable),
        (ResponseError("BUSY Redis is busy running a script"), QueueUnavailable),
        (ResponseError("NOREPLICAS Not enough good replicas to write"), QueueUnavailable),
        (ResponseError("BUSYGROUP Consumer Group name already exists"), QueueRefused),
        (ClusterDownError("The cluster is down"), Deposed),
        (MasterDownError("Link with MASTER is down"), Deposed),
        (ResponseError("Script attempted to access a non local key in a cluster node"), ReplyLost),
        (ResponseError("x" * 5000), QueueRefused),
    ],
)
async def test_a_server_at_fault_is_told_from_a_command_at_fault(error: ResponseError, kind: type[Exception]) -> None:
    """Goal: what may be tried again, and what not. Method: Redis' own words for both; and no endless message."""
    [outcome] = await _ran(_Connection([error]), 1)
    assert type(outcome) is kind
    assert len(str(outcome)) < 300


@pytest.mark.parametrize("error", [ConnectionError("reset"), OSError("gone"), BusyLoadingError("loading")])
async def test_a_break_keeps_the_replies_that_had_come_and_the_connection_is_closed(error: Exception) -> None:
    """Goal: partly answered is not unanswered. Method: break at the third reply of five."""
    connection = _Connection([1, 2, error])
    one, two, *lost = await _ran(connection, 5)
    assert (one, two) == (1, 2)
    assert [type(each) for each in lost] == [ReplyLost] * 3
    assert "3 of 5" in str(lost[0])
    assert connection.did == ["send", "disconnect"]


async def test_whatever_interrupts_an_exchange_closes_its_connection() -> None:
    """Goal: the next user never reads this one's replies. Method: interrupt with what is no Exception."""
    connection = _Connection([1, KeyboardInterrupt()])
    pool = _Pool(connection)
    with pytest.raises(KeyboardInterrupt):
        await Exchange([["PING"]] * 2).run(pool)
    assert connection.did == ["send", "disconnect"]
    assert pool.released == 1


async def test_a_connection_that_went_stale_is_replaced_before_anything_is_sent() -> None:
    """Goal: a fetch is not lost in a dead connection. Method: the health check fails; connect again, then send."""
    connection = _Connection(["PONG"], healthy=False)
    assert await _ran(connection, 1) == ["PONG"]
    assert connection.did == ["disconnect", "connect", "send"]


def test_an_exchange_without_a_connection_sent_nothing() -> None:
    """Goal: certain failure is told from doubt. Method: no run at all, with a cause and without."""
    for cause in (None, ConnectionError("refused")):
        with pytest.raises(QueueUnavailable, match="cannot be reached") as refused:
            Exchange([["PING"]]).outcome(cause, "here")
        assert refused.value.__cause__ is cause
