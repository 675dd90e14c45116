"""The conservative head: reached by a majority, backwards only with a record, finality along parents (RPC-7)."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
import trio
import trio.testing
from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st

from rpc.ballots import majority_of
from rpc.errors import FinalityViolated, NoQuorum, RpcError
from rpc.heads import WALK_BLOCKS_MAX, Heads
from rpc.quorum import Quorum
from rpc.segment import Reorganised, reached_by
from rpc.values import Header
from tests.rpc.voting import Blocks, Voter, away, blocks, header_of, saying, serving

LONG = blocks([f"block {number}" for number in range(600)])


@define
class Node:
    """A voter that serves a chain as far as it has come."""

    chain: Blocks
    height: int
    name: str = "node"
    voter: Voter = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.voter = Voter(self.name, serving(lambda: self.chain[: self.height + 1]))


def nodes(*heights: int, chain: Blocks = LONG) -> list[Node]:
    return [Node(chain, height, f"node {number}") for number, height in enumerate(heights)]


def heads_of(running: list[Node], **options: Any) -> Heads:
    return Heads(Quorum([node.voter for node in running]), **options)


def fork(at: int, length: int, name: str = "fork") -> Blocks:
    """The long chain up to `at`, then other blocks up to `length`."""
    return blocks(
        [f"block {number}" for number in range(at + 1)] + [f"{name} {number}" for number in range(at + 1, length)]
    )


@given(
    honest=st.lists(st.integers(1, 10**6), min_size=1, max_size=5),
    lies=st.lists(st.integers(0, 2**64 - 1), max_size=4),
    silent=st.integers(0, 2),
    order=st.randoms(),
)
def test_a_minority_of_liars_moves_the_head_beyond_no_honest_one(
    honest: list[int], lies: list[int], silent: int, order: Any
) -> None:
    """Goal: whatever fewer than half say, the head lies between the honest heads. Method: any honest heights, any lies
    and silence of a minority, in any order; a rollback to nothing and a jump to the end are among the lies."""
    configured = len(honest) + len(lies) + silent
    needed = majority_of(configured)
    if len(honest) < needed:
        return
    told = honest + lies
    order.shuffle(told)
    reached = reached_by(needed, configured, told)
    assert reached is not None
    assert min(honest) <= reached <= max(honest)


@pytest.mark.parametrize(
    ("heights", "configured", "reached"),
    [
        ([100, 100, 100], 3, 100),
        ([100, 90, 80], 3, 90),
        ([100, 0, 90], 3, 90),
        ([100, 99, 10**9], 3, 100),
        ([100, 99, 3], 3, 99),
        ([100], 3, None),
        ([100, 0], 3, None),
        ([100, 0, 0], 3, None),
        ([0, 0, 0], 3, 0),
        ([0, 0], 3, None),
        ([0], 1, 0),
        ([7], 1, 7),
        ([7, 9], 2, 7),
        ([9, 9, 7, 7], 4, 7),
        ([], 1, None),
    ],
)
def test_the_height_that_a_majority_has_reached(heights: list[int], configured: int, reached: int | None) -> None:
    """Goal: lagging, jumping, capped, zero and absent heads each, by hand. Method: the table."""
    assert reached_by(majority_of(configured), configured, heights) == reached


async def test_the_head_follows_the_second_of_three() -> None:
    """Goal: one that lags, jumps or is capped changes nothing. Method: two nodes go on, the third does as it likes."""
    running = nodes(50, 50, 50)
    heads = heads_of(running)
    for height, third in [(50, 50), (51, 3), (53, 599), (53, 0), (60, 52), (61, 400)]:
        running[0].height, running[1].height, running[2].height = height, height, third
        assert await heads.head() == header_of(LONG[height])
    assert not heads.reorganisations


async def test_a_head_that_was_decided_stays_while_voters_lag() -> None:
    """Goal: a majority that falls behind takes no decision back. Method: two of three fall behind the head; it stays,
    without a record; it goes on when they do."""
    running = nodes(50, 50, 50)
    heads = heads_of(running)
    assert (await heads.head()).number == 50
    running[0].height = running[1].height = 44
    assert (await heads.head()).number == 50
    running[0].height = running[1].height = 52
    assert (await heads.head()).number == 52
    assert not heads.reorganisations


async def test_a_reorganisation_is_recorded_and_only_then_the_head_goes_back() -> None:
    """Goal: backwards means a record. Method: the chain forks below the head, first shorter, then longer."""
    records: list[Reorganised] = []
    running = nodes(45, 45, 45)
    heads = heads_of(running, on_reorganised=records.append)
    await heads.head()
    for node in running:
        node.height = 50
    await heads.head()
    other = fork(46, 60)
    for node in running:
        node.chain, node.height = other, 48
    assert await heads.head() == header_of(other[48])
    (record,) = records
    assert record.height == 47
    assert (record.old_hash, record.new_hash) == (header_of(LONG[47]).hash, header_of(other[47]).hash)
    for node in running:
        node.height = 59
    assert await heads.head() == header_of(other[59])
    assert list(heads.reorganisations) == records
    assert await heads.canonical_hash(47) == header_of(other[47]).hash


async def test_a_consistent_liar_on_a_chain_of_its_own_moves_nothing() -> None:
    """Goal: a forged history, longer than ours and consistent in itself, is one vote. Method: a liar on a fork from
    genesis, far ahead; then the liar alone with one honest: no head at all."""
    running = nodes(50, 50, 50)
    running[2].chain, running[2].height = fork(0, 500), 499
    heads = heads_of(running)
    for height in (50, 51, 55):
        running[0].height = running[1].height = height
        assert await heads.head() == header_of(LONG[height])
        assert await heads.canonical_hash(height - 20) == header_of(LONG[height - 20]).hash
    running[1].voter.answer = saying(away())
    with pytest.raises(NoQuorum):
        await heads.head()
    with pytest.raises(NoQuorum):
        await heads_of(running).head()


async def test_where_honest_nodes_differ_at_the_tip_the_block_below_is_the_head() -> None:
    """Goal: two siblings at the tip do not stop the chain from being read. Method: three nodes, three tips above one
    block; at the start and while following."""
    running = [Node(fork(50, 52, f"tip {number}"), 51, f"node {number}") for number in range(3)]
    assert (await heads_of(running).head()) == header_of(LONG[50])
    for node in running:
        node.height = 49
    heads = heads_of(running)
    assert (await heads.head()).number == 49
    for node in running:
        node.height = 51
    assert (await heads.head()) == header_of(LONG[50])
    assert not heads.reorganisations


async def test_final_is_what_hangs_together_down_from_the_head() -> None:
    """Goal: a block is final by its place below the head. Method: exactly at the depth and one above it; a height
    above the head; far below the head in one step."""
    running = nodes(400, 400, 400)
    heads = heads_of(running)
    assert (await heads.head()).number == 400
    assert await heads.final(388, 12) == header_of(LONG[388])
    assert await heads.final(389, 12) is None
    assert await heads.final(401, 0) is None
    assert await heads.header_at(401) is None
    assert await heads.final(400 - WALK_BLOCKS_MAX + 1, 12) == header_of(LONG[400 - WALK_BLOCKS_MAX + 1])
    assert await heads.final(20, 12) == header_of(LONG[20])


async def test_a_block_that_does_not_link_is_not_walked_past() -> None:
    """Goal: finality goes along parent hashes, not along heights. Method: a majority that answers one height from
    another chain: that block and all below it are unproven, those above it stand."""
    running = nodes(100, 100, 100)
    mixed = [*LONG[:70], fork(60, 80)[70], *LONG[71:]]
    for node in running[:2]:
        node.chain = mixed
    heads = heads_of(running)
    await heads.head()
    assert await heads.final(71, 12) == header_of(LONG[71])
    for height in (70, 65):
        with pytest.raises(NoQuorum):
            await heads.final(height, 12)


async def test_a_final_block_that_is_replaced_stops_everything() -> None:
    """Goal: finality that was declared is never taken back in silence. Method: a reorganisation above the final block
    goes on; one through it raises, with both hashes, at this question and at every later one."""
    running = nodes(60, 60, 60)
    heads = heads_of(running)
    await heads.head()
    assert await heads.final(48, 12) is not None
    shallow = fork(48, 70, "shallow")
    for node in running:
        node.chain, node.height = shallow, 61
    await heads.head()
    deep = fork(47, 90, "deep")
    for node in running:
        node.chain, node.height = deep, 80
    for _ in range(2):
        with pytest.raises(FinalityViolated) as caught:
            await heads.head()
        assert (caught.value.height, caught.value.final_hash) == (48, header_of(LONG[48]).hash)
        assert caught.value.found_hash == header_of(deep[48]).hash
    with pytest.raises(FinalityViolated, match="a person has looked"):
        await heads.header_at(10)
    assert len(heads.reorganisations) == 2


async def test_a_final_block_is_held_even_below_all_that_is_kept() -> None:
    """Goal: no depth of reorganisation slips past. Method: the head is far above the final block, which is no longer
    kept; the chain is then another from below it."""
    running = nodes(60, 60, 60)
    heads = heads_of(running)
    await heads.head()
    assert await heads.final(48, 12) is not None
    for height in (300, 590):
        for node in running:
            node.height = height
        await heads.head()
    other = fork(40, 600)
    for node in running:
        node.chain, node.height = other, 595
    with pytest.raises(FinalityViolated):
        await heads.head()


async def test_what_an_earlier_process_relied_on_is_held(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: finality outlives a restart. Method: heads that begin with a final block told from outside: the chain's
    own is no matter, above and below the piece that is kept; another one raises though no reorganisation was seen, at
    the first question, and after a later seed too; one above the head, or not agreed now, waits until it can be
    compared."""
    del autojump_clock
    for height in (30, 498):
        heads = heads_of(nodes(500, 500, 500))
        heads.seed_final(height, header_of(LONG[height]).hash)
        assert (await heads.head()).number == 500
        heads.seed_final(height, b"\1" * 32)
        for _ in range(2):
            with pytest.raises(FinalityViolated, match=f"block {height} was declared final as 0x0101"):
                await heads.head()
    running = nodes(50, 50, 50)
    heads = heads_of(running)
    heads.seed_final(60, b"\2" * 32)
    heads.seed_final(20, header_of(LONG[20]).hash)
    assert (await heads.head()).number == 50
    running[0].voter.answer = running[1].voter.answer = lambda call: (
        away() if call.params[0] == "0x3c" else serving(lambda: LONG[:62])(call)
    )
    running[2].height = 61
    await heads.head()
    for node in running:
        node.voter.answer = serving(lambda: LONG[:64])
    with pytest.raises(FinalityViolated, match="block 60"):
        await heads.head()


async def test_a_final_block_in_doubt_is_not_forgotten_for_a_higher_one() -> None:
    """Goal: what could not be compared stays to be. Method: a seed that no majority tells of now; meanwhile a higher
    block is declared final; then the seed's height is told, and it is another block."""
    running = nodes(590, 590, 590)
    heads = heads_of(running)
    heads.seed_final(30, b"\1" * 32)
    for node in running[:2]:
        node.voter.answer = lambda call: away() if call.params[0] == "0x1e" else serving(lambda: LONG[:591])(call)
    await heads.head()
    assert await heads.final(560, 12) is not None
    for node in running[:2]:
        node.voter.answer = serving(lambda: LONG[:591])
    with pytest.raises(FinalityViolated, match="block 30 "):
        await heads.head()


async def test_a_long_sleep_starts_anew_without_losing_the_link() -> None:
    """Goal: a gap larger than is walked is no reorganisation and no stall. Method: the chain goes on by 500 blocks."""
    running = nodes(60, 60, 60)
    heads = heads_of(running)
    await heads.head()
    for node in running:
        node.height = 560
    assert (await heads.head()) == header_of(LONG[560])
    assert not heads.reorganisations
    assert await heads.canonical_hash(540) == header_of(LONG[540]).hash


async def test_a_header_that_is_refuted_is_not_built_on() -> None:
    """Goal: whoever can prove a header forged is heard. Method: a verifier that refuses one block."""

    class Forged(RpcError):
        pass

    def verify(header: Header) -> None:
        if header.number == 52:
            raise Forged

    running = nodes(50, 50, 50)
    heads = heads_of(running, verify=verify)
    await heads.head()
    for node in running:
        node.height = 52
    with pytest.raises(Forged):
        await heads.head()


async def test_a_voter_that_hangs_costs_the_grace_and_no_more(autojump_clock: trio.testing.MockClock) -> None:
    """Goal: the head waits for the slow, but not for the silent. Method: one that answers late within the grace is
    counted; one that hangs costs the grace."""
    running = nodes(60, 50, 58)
    running[2].voter.seconds = 0.5
    assert (await heads_of(running).head()).number == 58
    started = trio.current_time()
    running[2].voter.seconds = 1e9
    assert (await heads_of(running, grace_seconds=1).head()).number == 50
    assert trio.current_time() - started == 1


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["grow", "lag", "fork", "lie", "silence"]), st.integers(0, 4), st.integers(1, 6)),
        max_size=12,
    ),
    liar=st.integers(0, 2),
)
async def test_whatever_happens_the_head_is_honest_and_goes_back_only_with_a_record(
    steps: list[tuple[str, int, int]], liar: int
) -> None:
    """Goal: RPC-7 as a property. Method: an honest chain that grows, forks and is lagged behind by one of two honest
    nodes, beside a liar that serves anything; every head decided is a block that an honest node has now, or had when
    the head was first decided, and its number falls only when a record was made."""
    running = nodes(20, 20, 20)
    honest = [node for number, node in enumerate(running) if number != liar]
    records: list[Reorganised] = []
    heads = heads_of(running, on_reorganised=records.append)
    chain, had, last = LONG, set[bytes](), 0
    for number, (what, which, amount) in enumerate(steps):
        match what:
            case "grow":
                for node in honest:
                    node.height += amount
            case "lag":
                honest[which % 2].height -= amount
            case "fork":
                top = max(node.height for node in honest)
                names = [f"f{number}-{height}" for height in range(top + amount + 200)]
                chain = _onto(chain[: top - which], names)
                for node in honest:
                    node.chain, node.height = chain, top + 1
            case "lie":
                running[liar].chain, running[liar].height = fork(which, 40 + amount, f"lie {number}"), 39 + amount
            case _:
                running[liar].height = -1
        had |= {
            header_of(block).hash for node in honest for block in node.chain[max(node.height - 8, 0) : node.height + 1]
        }
        before = len(records)
        try:
            head = await heads.head()
        except NoQuorum:
            continue
        assert head.hash in had
        assert head.number >= last or len(records) > before
        last = head.number


def _onto(chain: Blocks, names: list[str]) -> Blocks:
    """More blocks on top of a chain, linked to it."""
    grown = list(chain)
    for own in blocks(names):
        parent = grown[-1]["hash"]
        grown.append({**own, "number": hex(len(grown)), "parentHash": parent, "hash": f"0x{_hash_of(parent, own)}"})
    return grown


def _hash_of(parent: str, own: Any) -> str:
    return hashlib.sha256((parent + own["hash"]).encode()).hexdigest()
