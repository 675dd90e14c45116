"""A database restored from a real backup, while the chain has gone on (TX-14, PRF-2)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from rpc import methods
from storage.database import Database
from tayho.coordination.control.jobs import JobControl
from tayho.coordination.control.types import Deed
from tests.crash.backups import dumped, restored
from tests.crash.halted import act, until_unready
from tests.crash.scenes import FIRST, SECOND, Stage
from tests.crash.world import ENVIRONMENT, RECONCILE_SECONDS, World, world
from tests.invariants import events_of
from tests.services.chain import CHAIN_ID, LocalChain, local_chain

pytestmark = [pytest.mark.crash, pytest.mark.services]


@pytest.fixture
def chain() -> Iterator[LocalChain]:
    """A node of this test's own, whose blocks can be stopped."""
    with local_chain(block_seconds=1) as running:
        yield running


async def test_what_is_restored_from_a_backup_signs_nothing_until_it_is_adopted_and_doubles_nothing(
    crashing: World,
    database_url: str,
    redis_url: str,
    chain: LocalChain,
    tmp_path: Path,
    empty_database_url: str,
) -> None:
    """Goal: a backup is safe to come back to. Method: a custom dump is taken while two jobs have ended, two are out and
    two have not begun; all of them take effect afterwards; the dump is restored into a new database, Redis is empty,
    and a replica starts there: it is unready, and neither chain nor journal changes; the one job whose kind cannot see
    its effect is cancelled, the chain is adopted, and every job of all has one effect."""
    event = os.urandom(32)
    stage = Stage(crashing, {})
    async with trio.open_nursery() as blocks:
        blocks.start_soon(stage.make_blocks)
        before = await crashing.start()
        ended = await crashing.enqueue("ended", 2)
        await crashing.await_all_ended(ended)
        stage.are_blocks_stopped = True
        out = await crashing.enqueue("out", 2)
        await stage.until_out(out)
        before.kill()
        (blind,) = await crashing.enqueue("blind", 1)
        seeing = await crashing.enqueue_once("seeing", event)
        backup = await dumped(database_url, tmp_path / "backup", "--format=custom")
        stage.are_blocks_stopped = False
        after = await crashing.start()
        all_ids = [*ended, *out, blind, seeing]
        assert set((await crashing.await_all_ended(all_ids)).values()) == {"completed"}
        after.kill()
        await crashing.flushall()

        (folder := tmp_path / "restored").mkdir()
        await restored(backup, empty_database_url)
        async with (
            Database.open(empty_database_url, pool_size=4, application_name="tests") as database,
            world(database, empty_database_url, redis_url, chain, folder) as again,
        ):
            replica = await again.start()
            await until_unready(replica, "chain_ahead", "tayho world adopt automation")
            as_they_were = await _sent(again)
            await trio.sleep(3 * RECONCILE_SECONDS)
            assert await _sent(again) == as_they_were
            await JobControl(database, CHAIN_ID, ENVIRONMENT).cancel(blind, Deed("ada", "it took effect"))
            await act(again, "adopt")
            states = await again.await_all_ended(all_ids)
            assert states == {**dict.fromkeys([*ended, *out], "completed"), blind: "dead", seeing: "not_actionable"}
            new = await again.enqueue("new", 3)
            assert set((await again.await_all_ended(new)).values()) == {"completed"}
            assert set((await again.effects([*ended, *out, blind, *new])).values()) == {1}
            assert (await events_of(again.node, again.contract))[event] == 1
            await again.check()
        blocks.cancel_scope.cancel()


async def _sent(one: World) -> tuple[Any, ...]:
    """All by which a signature or a send would show: nonces of the node's pool, members, and what nodes were sent."""
    nonces = [await one.node.ask(methods.transaction_count(signer.value, "pending")) for signer in (FIRST, SECOND)]
    async with one.database.connection() as connection:
        row = await connection.fetchrow(
            """
            SELECT (SELECT count(*) FROM transactions.lineages), (SELECT count(*) FROM transactions.members),
                (SELECT count(*) FROM transactions.broadcasts)
            """
        )
    assert row is not None
    return (*nonces, *row)
