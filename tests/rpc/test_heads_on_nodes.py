"""Heads and receipts over real nodes that reorganise, roll back, or serve a forged history (RPC-7)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from attrs import define

from rpc import methods
from rpc.endpoint import Endpoint
from rpc.errors import FinalityViolated, NoQuorum
from rpc.heads import Heads
from rpc.quorum import Quorum
from rpc.reads import Call
from rpc.truth import ChainTruth
from rpc.values import Header
from tayho.local.anvil import Chain, anvil
from tests.rpc.test_real_node import CHAIN_ID, NOBODY, SENDER, signed

# The same at every node, so that the same blocks have the same hashes.
GENESIS_SECONDS = 1_700_000_000


@define
class Nodes:
    """Three nodes of one history: blocks are equal while each is told the same."""

    endpoints: tuple[Endpoint, ...]
    now_seconds: int = GENESIS_SECONDS

    async def tell(self, method: str, *params: object, only: tuple[int, ...] = (0, 1, 2)) -> None:
        for number in only:
            await self.endpoints[number].ask(Call(method, params, lambda _: None, is_write=True))

    async def mine(self, blocks: int, only: tuple[int, ...] = (0, 1, 2)) -> None:
        """So many blocks, one second apart, the first at a time that no block had before."""
        self.now_seconds += 1_000
        await self.tell("evm_setNextBlockTimestamp", self.now_seconds, only=only)
        await self.tell("anvil_mine", hex(blocks), "0x1", only=only)

    async def latest(self, number: int) -> Header:
        header = await self.endpoints[number].ask(methods.block_by_number("latest"))
        assert header is not None
        return header

    def heads(self) -> Heads:
        return Heads(Quorum(self.endpoints))


@pytest.fixture
async def nodes(tmp_path: Path) -> AsyncIterator[Nodes]:
    async with AsyncExitStack() as opened:
        urls: list[str] = []
        for number in range(3):
            folder = tmp_path / str(number)
            folder.mkdir()
            node = await opened.enter_async_context(anvil(folder, Chain(mines=False, genesis_seconds=GENESIS_SECONDS)))
            urls.append(node.service.url)
        yield Nodes(tuple([await opened.enter_async_context(Endpoint.open(url, chain_id=CHAIN_ID)) for url in urls]))


async def test_a_head_of_three_real_nodes(nodes: Nodes) -> None:
    """Goal: the head of real nodes, one behind, is the highest that two have. Method: two mine on, one does not; and
    then it mines blocks of its own, further than the others."""
    await nodes.mine(5)
    heads = nodes.heads()
    assert await heads.head() == await nodes.latest(2)
    await nodes.mine(3, only=(0, 1))
    assert await heads.head() == await nodes.latest(0)
    await nodes.mine(20, only=(2,))
    assert await heads.head() == await nodes.latest(1)
    assert await heads.canonical_hash(7) != (await nodes.latest(2)).hash
    assert (await heads.final(6, 2)) is not None
    assert not heads.reorganisations


async def test_a_reorganisation_of_real_nodes_is_recorded(nodes: Nodes) -> None:
    """Goal: real nodes that reorganise move the head with a record; one that does so alone moves nothing. Method: one
    node reorganises three blocks; then the two others do, alike."""
    await nodes.mine(10)
    heads = nodes.heads()
    before = await heads.head()
    await nodes.tell("anvil_reorg", 3, [], only=(0,))
    assert await nodes.latest(0) != before
    assert await heads.head() == before
    await nodes.tell("anvil_rollback", 3, only=(1, 2))
    assert await heads.head() == before
    await nodes.mine(4, only=(1, 2))
    after = await heads.head()
    assert after == await nodes.latest(1)
    (record,) = heads.reorganisations
    assert record.height == 8
    assert record.new_hash == await heads.canonical_hash(8)


async def test_a_final_block_that_real_nodes_replace(nodes: Nodes) -> None:
    """Goal: finality that nodes take back is told and held. Method: all nodes reorganise through a final block."""
    await nodes.mine(10)
    heads = nodes.heads()
    await heads.head()
    assert await heads.final(7, 3) is not None
    await nodes.tell("anvil_rollback", 5)
    await nodes.mine(7)
    for _ in range(2):
        with pytest.raises(FinalityViolated, match="block 7 was declared final"):
            await heads.head()


async def test_a_nonce_is_agreed_at_the_block_of_the_head(nodes: Nodes) -> None:
    """Goal: a confirmed nonce is what two of three have after one agreed block, and pools do not count. Method: a
    transaction in all pools, mined by two; a liar's account; and one node that is a block ahead of the other."""
    raw = signed(0, to=NOBODY, value_wei=5)
    await nodes.mine(1)
    for endpoint in nodes.endpoints:
        await endpoint.ask(methods.send_raw_transaction(raw))
    truth = ChainTruth(Quorum(nodes.endpoints), nodes.heads())
    sight = await truth.look([], [SENDER], confirmations=1, lookback=1)
    assert (sight.nonces[SENDER], sight.pending_nonces[SENDER]) == (0, 1)
    await nodes.mine(1, only=(0, 1))
    sight = await truth.look([], [SENDER], confirmations=1, lookback=1)
    assert (sight.head.number, sight.nonces[SENDER], sight.pending_nonces[SENDER]) == (2, 1, 1)
    # The liar's account is what it likes, and so is its pool.
    await nodes.tell("anvil_setNonce", f"0x{SENDER.hex()}", "0x63", only=(2,))
    sight = await truth.look([], [SENDER], confirmations=1, lookback=1)
    assert (sight.nonces[SENDER], sight.pending_nonces[SENDER]) == (1, 1)
    await nodes.endpoints[0].ask(methods.send_raw_transaction(signed(1, to=NOBODY)))
    await nodes.mine(1, only=(0,))
    sight = await truth.look([], [SENDER], confirmations=1, lookback=1)
    assert (sight.head.number, sight.nonces[SENDER]) == (2, 1)
    assert sight.failures == ()


async def test_a_nonce_is_final_where_its_block_is_deep(nodes: Nodes) -> None:
    """Goal: what is used up now and what is used up for good are told apart, and the balance with them. Method: a
    transaction in the head block, then one block below it after the other; a chain that is not deep enough yet."""
    raw = signed(0, to=NOBODY, value_wei=5)
    for endpoint in nodes.endpoints:
        await endpoint.ask(methods.send_raw_transaction(raw))
    await nodes.mine(1)
    truth = ChainTruth(Quorum(nodes.endpoints), nodes.heads())
    sight = await truth.look([], [SENDER, NOBODY], confirmations=2, lookback=10)
    assert (sight.nonces[SENDER], dict(sight.final_nonces)) == (1, {})
    assert sight.balances_wei[NOBODY] == 5
    for below, final in ((1, 0), (2, 1)):
        await nodes.mine(1)
        sight = await truth.look([], [SENDER, NOBODY], confirmations=2, lookback=10)
        assert (sight.nonces[SENDER], sight.final_nonces[SENDER]) == (1, final), below
    assert sight.failures == ()
    # The same of a head that the caller has, though the chain went on.
    await nodes.mine(1)
    again = await truth.look([], [SENDER, NOBODY], confirmations=2, lookback=10, head=sight.head)
    assert again == sight


async def test_accounts_are_agreed_at_one_head(nodes: Nodes) -> None:
    """Goal: what a lane is watched by is a majority's word. Method: an account with transactions mined and waiting and
    a delegation; one of three tells another balance, code and nonce; then no two agree on the balance."""
    delegation = b"\xef\x01\x00" + b"\x11" * 20
    await nodes.tell("anvil_setCode", f"0x{SENDER.hex()}", f"0x{delegation.hex()}")
    await nodes.tell("anvil_setCode", f"0x{NOBODY.hex()}", f"0x{'60' * 40}")
    for endpoint in nodes.endpoints:
        await endpoint.ask(methods.send_raw_transaction(signed(0, to=NOBODY, value_wei=5)))
    await nodes.mine(3)
    for endpoint in nodes.endpoints:
        await endpoint.ask(methods.send_raw_transaction(signed(1, to=NOBODY)))
    truth = ChainTruth(Quorum(nodes.endpoints), nodes.heads())
    head = await truth.heads.head()
    sight = await truth.accounts([SENDER, NOBODY], head, depth=2)
    assert (sight.nonces[SENDER], sight.final_nonces[SENDER], sight.pending_nonces[SENDER]) == (1, 1, 2)
    assert (sight.balances_wei[NOBODY], sight.codes[SENDER]) == (5, delegation)
    assert sight.codes[NOBODY] == b"\x60" * 23
    assert sight.failures == ()
    for method, told in (("anvil_setBalance", "0x7"), ("anvil_setNonce", "0x9"), ("anvil_setCode", "0x")):
        await nodes.tell(method, f"0x{SENDER.hex()}", told, only=(2,))
    assert await truth.accounts([SENDER, NOBODY], head, depth=2) == sight
    await nodes.tell("anvil_setBalance", f"0x{SENDER.hex()}", "0x8", only=(1,))
    contested = await truth.accounts([SENDER, NOBODY], head, depth=2)
    assert dict(contested.balances_wei) == {NOBODY: 5}
    assert contested.nonces == sight.nonces
    (failure,) = contested.failures
    assert isinstance(failure, NoQuorum)


async def test_a_reorganisation_within_the_lookback_is_no_violation(nodes: Nodes) -> None:
    """Goal: confirmations end a lineage, the lookback ends the matter. Method: looks at three nodes that reorganise
    deeper than the confirmations but not than the lookback, and then deeper than that."""
    await nodes.mine(10)
    truth = ChainTruth(Quorum(nodes.endpoints), nodes.heads())

    async def look() -> int:
        return (await truth.look([], [], confirmations=2, lookback=6)).head.number

    assert await look() == 10
    await nodes.tell("anvil_rollback", 5)
    await nodes.mine(6)
    assert await look() == 11
    assert len(truth.heads.reorganisations) == 1
    await nodes.tell("anvil_rollback", 7)
    await nodes.mine(8)
    with pytest.raises(FinalityViolated, match="block 5 was declared final"):
        await look()


async def test_two_real_nodes_that_differ_decide_nothing(nodes: Nodes) -> None:
    """Goal: of two configured, both are needed. Method: two of the nodes part from the first block on."""
    await nodes.mine(3, only=(0,))
    await nodes.mine(3, only=(1,))
    heads = Heads(Quorum(nodes.endpoints[:2]))
    # The genesis is all that they share.
    assert (await heads.head()).number == 0
    with pytest.raises(NoQuorum):
        await Quorum(nodes.endpoints[:2]).agreed(methods.block_by_number(3))
