"""A key of the journal goes only when a majority has every receipt as the journal has it (OPS-8)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from attrs import evolve

from rpc.member import Member
from rpc.values import Receipt
from rpc.voters import independent_hosts
from tayho.transactions.rotating import keys
from tayho.transactions.rotating.keys import KeyRetirement
from tayho.transactions.rotating.types import CheckDone
from tayho.voters import truth_of
from tests.services.ballast import past_triggers
from tests.services.chain import LocalChain, local_chain
from tests.transactions.conftest import CHAIN_ID, ENVIRONMENT, Engine
from tests.transactions.healing import LOOKBACK, Healing
from tests.transactions.test_liars import about, none_for, three
from tests.transactions.watching import rows

KEY = "test"


@pytest.fixture
def chain() -> Iterator[LocalChain]:
    """A node of this test's own: its lanes begin at their first nonces."""
    with local_chain(block_seconds=None) as running:
        yield running


async def _checked(engine: Engine, voters: Sequence[Member], key_id: str = KEY, hosts: int = 3) -> CheckDone:
    retirement = KeyRetirement(
        engine.plane.database,
        engine.plane.coordination,
        truth_of(voters),
        CHAIN_ID,
        ENVIRONMENT,
        voters=hosts,
        lookback_blocks=LOOKBACK,
        retention_days=30,
    )
    return await retirement.check(key_id, "ada")


async def _codes(engine: Engine, voters: Sequence[Member], key_id: str = KEY, hosts: int = 3) -> list[str]:
    return [one.code for one in (await _checked(engine, voters, key_id, hosts)).missing]


async def test_a_key_is_kept_until_a_majority_has_every_receipt(
    engine: Engine, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: OPS-8 on a real chain, journal and voters. Method: five transactions under a key, read in pages of two:
    kept while fresh and shallow, and while one is open; old and deep, it may go, whatever one endpoint of three makes
    of a block hash or hides; two liars, or a journal that says another block than the chain, keep it."""
    monkeypatch.setattr(keys, "PAGE_MAX", 2)
    healing = Healing.of(engine)
    await healing.completed(healing.replica(), 4)
    assert await _codes(engine, three(engine)) == ["retention", "shallow"]
    await healing.sent(1, "open")
    assert await _codes(engine, three(engine)) == ["open", "retention", "shallow"]
    await healing.mine(LOOKBACK)
    await healing.replica().tick()
    async with past_triggers(database_url) as connection:
        await connection.execute("UPDATE transactions.members SET signed_at = signed_at - interval '31 days'")
    honest = three(engine)
    done = await _checked(engine, honest)
    assert (done.missing, done.detail["agreed"]) == ((), 5)
    assert max(voter.asked for voter in honest) <= 8, "a page is one batch a voter"
    elsewhere = about(Receipt, lambda receipt: evolve(receipt, block_hash=b"\x01" * 32))
    hidden = none_for("eth_getTransactionReceipt")
    for lie in (elsewhere, hidden):
        assert await _codes(engine, three(engine, lie)) == []
        assert await _codes(engine, three(engine, lie, lie)) == ["differs"]
    assert await _codes(engine, three(engine, elsewhere, hidden)) == ["unread"]
    assert await _codes(engine, three(engine), hosts=2) == ["voters"]
    assert await _codes(engine, three(engine), "tset") == ["unknown"]
    async with past_triggers(database_url) as connection:
        await connection.execute(
            "UPDATE transactions.receipts SET block_hash = decode(repeat('ab', 32), 'hex')"
            " WHERE tx_hash = (SELECT max(tx_hash::text)::bytea FROM transactions.receipts)"
        )
    assert await _codes(engine, three(engine)) == ["differs"]
    told = await rows(engine, "SELECT DISTINCT action, actor FROM coordination.operator_actions")
    assert told == [("key_retire_check", "ada")]
    checks = await rows(
        engine, "SELECT count(*), count(*) FILTER (WHERE has_passed) FROM transactions.retirement_checks"
    )
    assert checks == [(11, 3)]


async def test_endpoints_of_one_host_are_counted_once() -> None:
    """Goal: three names of one machine are no three witnesses. Method: names that resolve to one address, chains of
    such, and hosts of their own."""
    places = {"a": "192.0.2.1", "b": "192.0.2.1", "c": "192.0.2.2", "d": "192.0.2.3"}

    async def resolve(host: str) -> list[str]:
        return [places[host]]

    async def count(*names: str) -> int:
        return await independent_hosts([f"http://{name}" for name in names], resolve=resolve)

    assert await count("a", "b", "c") == 2
    assert await count("a", "c", "d") == 3
    assert await independent_hosts(["http://127.0.0.1:1", "http://localhost:2", "http://127.0.0.1:3"]) == 1
