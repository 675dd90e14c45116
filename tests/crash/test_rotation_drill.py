"""The rotation drill: a signer is exchanged on a running pool under load, by commands that die (OPS-7, PRF-2)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any
from uuid import UUID

import pytest
import trio
from attrs import define, field

from rpc.reads import Call
from tayho.demo.fleet import Replica
from tayho.faults import CRASH_AT
from tayho.kernel.address import Address
from tayho.local.development import PUBLIC_ACCOUNTS
from tests.crash.test_every_step import ROTATION_STEPS
from tests.crash.world import ENVIRONMENT, World
from tests.services.chain import CHAIN_ID, LocalChain, local_chain
from tests.waiting import until

pytestmark = [pytest.mark.crash, pytest.mark.services]

OLD, STAYING = (Address.parse(address) for address, _ in PUBLIC_ACCOUNTS)
# The fourth account of the public mnemonic: the third deploys.
NEW = Address.parse("0x90F79bf6EB2c4f870365E785982E1f101E93b906")
KEYS = {**dict(PUBLIC_ACCOUNTS), str(NEW): "0x7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6"}
# The command line in a process that may be told to die at a step.
COMMAND = """
import os, sys
from tayho.cli.main import main
from tayho.faults import arm_from
arm_from(os.environ, os.environ["ENVIRONMENT"])
main(sys.argv[1:], prog_name="tayho")
"""


@pytest.fixture
def chain() -> Iterator[LocalChain]:
    """A node of this test's own: it stops making blocks for a while."""
    with local_chain() as running:
        yield running


@define
class Drill:
    """Replicas, a load, and an operator with the command line."""

    world: World
    job_ids: list[UUID] = field(factory=list[UUID])
    died_at: set[str] = field(factory=set[str])

    async def command(self, *arguments: str, crash_at: str | None = None) -> tuple[int, Any]:
        """The exit code and the document of a command; with a step, of one that died there."""
        environment = {**os.environ, **self.world.replicas.environment, "OPERATOR_ID": "ada"}
        environment["TX_REORG_LOOKBACK_BLOCKS"] = "4"
        if crash_at is not None:
            environment[CRASH_AT] = crash_at
            self.died_at.add(crash_at)
        run = [sys.executable, "-c", COMMAND, "jobs", *arguments, "--json"]
        ended = await trio.run_process(
            run, env=environment, check=False, capture_stdout=True, capture_stderr=True, stdin=subprocess.DEVNULL
        )
        told = ended.stdout.decode()
        assert told or ended.returncode in (1, -9), ended.stderr.decode()
        return ended.returncode, json.loads(told) if told else ended.stderr.decode()

    async def dies(self, step: str, *arguments: str) -> None:
        code, told = await self.command(*arguments, crash_at=step)
        assert code == -9, told

    async def load(self) -> None:
        """Some jobs at a time, until cancelled."""
        while True:
            self.job_ids += await self.world.enqueue(f"load-{len(self.job_ids)}", 2)
            await trio.sleep(0.5)

    async def start(self, *signers: Address) -> Replica:
        keys = json.dumps({str(signer): KEYS[str(signer)] for signer in signers})
        replica = await self.world.start(SIGNER_KEYS=keys, TX_REORG_LOOKBACK_BLOCKS="4")
        await self.world.await_word(replica, "started")
        return replica

    async def roll(self, replica: Replica, *signers: Address) -> Replica:
        """Another in the place of one that drains."""
        successor = await self.start(*signers)
        replica.terminate()
        with trio.fail_after(30):
            assert await replica.process.wait() == 0
        return successor

    async def ask_node(self, method: str, *parameters: object) -> None:
        await self.world.node.ask(Call(method, parameters, lambda _: None, is_write=True))

    async def value(self, sql: str, *arguments: object) -> Any:
        async with self.world.database.connection() as connection:
            return await connection.fetchval(sql, *arguments)

    async def has_lineage(self, signer: Address) -> bool:
        return await self.value("SELECT count(*) FROM transactions.lineages WHERE signer = $1", signer.value) > 0


async def test_a_signer_is_exchanged_on_a_running_pool(crashing: World) -> None:
    """Goal: the drill of OPS-7 end to end by the command line, with no failed job, each command also dying at its
    commit and given again. Method: two replicas under load, one of which holds the new key; the old signer drained and
    undrained and drained; no block comes: the check refuses; blocks come: it passes after finality; the place is handed
    over; the running replica that has the key takes nonces of it; both are rolled, one still with the old key. Every
    job completes once, no attempt failed, and nothing of the old signer was begun after its drain."""
    drill = Drill(crashing)
    # The first start makes the pool; the second holds a key more, which stands by.
    one, two = await drill.start(OLD, STAYING), await drill.start(OLD, STAYING, NEW)
    async with trio.open_nursery() as tasks:
        tasks.start_soon(drill.load)
        await until(partial(drill.has_lineage, OLD), seconds=30, what="the old signer to work")
        await _drained(drill)
        fence = await drill.value("SELECT next_nonce FROM transactions.lanes WHERE signer = $1", OLD.value)
        await _checked(drill)
        await _handed_over(drill)
        await until(partial(drill.has_lineage, NEW), seconds=30, what="the new signer to work, without a restart")
        one = await drill.roll(one, STAYING, NEW)
        two = await drill.roll(two, OLD, STAYING, NEW)
        assert "signer_retired" in two.log.read_text()
        tasks.cancel_scope.cancel()
    assert set((await crashing.await_all_ended(drill.job_ids, seconds=90)).values()) == {"completed"}
    assert set((await crashing.effects(drill.job_ids)).values()) == {1}
    await crashing.check()
    assert await drill.value("SELECT count(*) FROM coordination.attempts WHERE state = 'failed'") == 0
    assert await drill.value("SELECT next_nonce FROM transactions.lanes WHERE signer = $1", OLD.value) == fence
    assert drill.died_at == ROTATION_STEPS


async def _drained(drill: Drill) -> None:
    """Drained while something of it is open, which no block ends."""
    drain = "signer-drain", str(OLD), "0"
    await drill.dies("rotation.after_drain", *drain)
    await drill.dies("rotation.after_undrain", "signer-undrain", str(OLD))
    before = await drill.value("SELECT max(nonce) FROM transactions.lineages WHERE signer = $1", OLD.value)

    async def works_again() -> bool:
        now = await drill.value("SELECT max(nonce) FROM transactions.lineages WHERE signer = $1", OLD.value)
        return now > before

    await until(works_again, seconds=30, what="the undrained signer to work")
    await drill.ask_node("evm_setIntervalMining", 0)
    await until(partial(_is_open, drill), seconds=30, what="something of the old signer to be open")
    code, told = await drill.command(*drain)
    assert (code, told["changed"], told["left"]["lineages"] > 0) == (4, True, True)


async def _is_open(drill: Drill) -> bool:
    sql = "SELECT count(*) FROM transactions.lineages WHERE signer = $1 AND state IN ('signed', 'broadcast')"
    return await drill.value(f"{sql} AND included_block_number IS NULL", OLD.value) > 0


async def _checked(drill: Drill) -> None:
    """Refused while a transaction lives, and passed after its finality."""
    check = "signer-retire-check", str(OLD)
    code, told = await drill.command(*check)
    assert (code, "open" in {one["code"] for one in told["check"]["missing"]}) == (1, True)
    await drill.ask_node("evm_setIntervalMining", 1)
    code, told = await drill.command("signer-drain", str(OLD), "90")
    assert (code, told["left"]["lineages"]) == (0, 0)
    await drill.dies("rotation.after_request", *check)
    # Deeper than the replicas' reorganisations reach.
    await drill.ask_node("anvil_mine", "0x6")
    await drill.dies("rotation.after_check", *check)
    code, told = await drill.command(*check)
    assert (code, told["check"]["missing"]) == (0, [])


async def _handed_over(drill: Drill) -> None:
    rotate = "signer-pool-rotate", str(CHAIN_ID), f"{ENVIRONMENT}:automation", str(OLD), str(NEW), "--yes"
    await drill.dies("rotation.after_rotate", *rotate)
    code, told = await drill.command(*rotate)
    assert (code, told["rotated"]["changed"]) == (0, False)
