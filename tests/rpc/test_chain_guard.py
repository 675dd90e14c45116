"""One check serves all who need it, and a check says nothing about what happened after it began."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rpc.chain_guard import ChainGuard, may_reconnect
from rpc.errors import (
    BodyTooLarge,
    ChainMismatch,
    DeadlinePassed,
    EndpointFault,
    HttpStatus,
    Malformed,
    Reason,
    Transport,
    fault,
)


class Probe:
    """Counts checks; each waits until it may end, and then ends as told."""

    def __init__(self) -> None:
        self.begun = 0
        self.failure: EndpointFault | None = None
        self.may_end = trio.Event()

    async def __call__(self) -> None:
        self.begun += 1
        await self.may_end.wait()
        if self.failure is not None:
            raise self.failure


class Connection:
    pass


async def test_a_check_holds_until_something_happens() -> None:
    """Goal: no check per question. Method: ask often; then distrust, and a new connection."""
    guard, probe = ChainGuard(), Probe()
    probe.may_end.set()
    for _ in range(3):
        await guard.ensure(probe)
    assert probe.begun == 1
    guard.distrust()
    await guard.ensure(probe)
    assert probe.begun == 2
    connection = Connection()
    assert guard.notice(connection)
    await guard.ensure(probe)
    assert probe.begun == 3
    assert not guard.notice(connection)
    await guard.ensure(probe)
    assert probe.begun == 3


async def test_a_check_does_not_cover_what_happened_while_it_ran() -> None:
    """Goal: a reconnection during a check needs another. Method: distrust while the check runs."""
    guard, probe = ChainGuard(), Probe()
    async with trio.open_nursery() as tasks:
        tasks.start_soon(guard.ensure, probe)
        await trio.testing.wait_all_tasks_blocked()
        guard.distrust()
        tasks.start_soon(guard.ensure, probe)
        probe.may_end.set()
    assert probe.begun == 2


async def test_all_who_wait_share_one_failure() -> None:
    """Goal: a dead endpoint is asked once for all who wait, and again for who comes later. Method: ten who wait."""
    guard, probe = ChainGuard(), Probe()
    probe.failure = fault("http://node", "eth_chainId", ChainMismatch(1, 2))
    raised: list[EndpointFault] = []

    async def ensure() -> None:
        try:
            await guard.ensure(probe)
        except EndpointFault as error:
            raised.append(error)

    async with trio.open_nursery() as tasks:
        for _ in range(10):
            tasks.start_soon(ensure)
        await trio.testing.wait_all_tasks_blocked()
        probe.may_end.set()
    assert probe.begun == 1
    assert len({id(error) for error in raised}) == 10
    assert {(type(error), error.reason) for error in raised} == {(type(probe.failure), ChainMismatch(1, 2))}
    await ensure()
    assert probe.begun == 2


def test_a_connection_that_is_gone_is_forgotten() -> None:
    """Goal: the guard holds no connection alive. Method: let one go, and count what is remembered."""
    guard = ChainGuard()
    guard.notice(Connection())
    assert guard.notice(Connection()), "a new connection at an old one's place in memory is new"


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (Transport("reset"), True),
        (ChainMismatch(1, 2), True),
        (DeadlinePassed(1, "body"), True),
        (DeadlinePassed(1, "slot"), False),
        (HttpStatus(503), False),
        (BodyTooLarge(1), False),
        (Malformed("x"), False),
    ],
)
def test_faults_that_end_in_a_reconnection(reason: Reason, expected: bool) -> None:
    """Goal: a check after each reconnection and no more. Method: every reason."""
    assert may_reconnect(reason) is expected
