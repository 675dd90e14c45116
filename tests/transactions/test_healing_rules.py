"""The pure rules of reorganisations and of nonces that others used: properties (TX-3, TX-6)."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from rpc.errors import NoQuorum
from rpc.values import Header
from tayho.kernel.address import Address
from tayho.transactions.reorganising_rules import Block, Boundary, Ended, first_looked_at, heirs, judge
from tayho.transactions.superseding_rules import Bracket, Looks

HEAD = 100
UNAGREED = NoQuorum("eth_getBlockByNumber", 2, (), ())


def header(number: int, branch: int) -> Header:
    return Header(number, hash_of(number, branch), bytes(32), 0, 1, 1, 0, *[bytes(32)] * 3, b"", bytes(20))


def hash_of(number: int, branch: int) -> bytes:
    return bytes([branch]) + number.to_bytes(31, "big")


HEIGHTS = st.integers(0, HEAD)
BLOCKS = st.builds(lambda number, branch: Block(number, hash_of(number, branch)), HEIGHTS, st.integers(0, 1))
# What a majority has at each height: this branch, that one, no agreement, or nothing.
CHAINS = st.lists(st.sampled_from([0, 1, None, UNAGREED]), min_size=HEAD + 1, max_size=HEAD + 1).map(
    lambda told: {
        number: header(number, branch) if isinstance(branch, int) else branch for number, branch in enumerate(told)
    }
)


@given(st.lists(BLOCKS, max_size=8), st.none() | BLOCKS, CHAINS, st.integers(1, 40))
def test_only_another_block_that_is_agreed_is_a_reorganisation(
    deciding: list[Block], boundary: Block | None, chain: dict[int, Header | NoQuorum | None], lookback: int
) -> None:
    """Goal: TX-6, whatever is told. Method: every judgement is compared with its definition, block by block."""
    judgement = judge(deciding, boundary, chain, HEAD, lookback)
    replaced = [
        block for block in deciding if isinstance(now := chain[block.number], Header) and now.hash != block.hash
    ]
    final = -1 if boundary is None else boundary.number
    now = None if boundary is None else chain[boundary.number]
    is_boundary_gone = boundary is not None and isinstance(now, Header) and now.hash != boundary.hash
    if is_boundary_gone or any(block.number <= final for block in replaced):
        assert judgement.violated
        assert (judgement.reorganised, judgement.boundary) == ((), None)
        return
    assert not judgement.violated
    assert [(one.number, one.old_hash) for one in judgement.reorganised] == [
        (block.number, block.hash) for block in replaced
    ]
    if judgement.boundary is not None:
        assert judgement.boundary.number == max(HEAD - lookback, 0) > final
        assert chain[judgement.boundary.number] == header(judgement.boundary.number, judgement.boundary.hash[0])
        for block in deciding:
            told = chain[block.number]
            assert block.number > judgement.boundary.number or (isinstance(told, Header) and told.hash == block.hash)


@given(st.none() | st.builds(Boundary, BLOCKS, st.booleans()), st.integers(0, HEAD), st.integers(1, 40))
def test_whatever_is_not_final_is_looked_at(boundary: Boundary | None, head: int, lookback: int) -> None:
    """Goal: no receipt falls between two looks. Method: everything above the boundary and within the lookback is above
    the height from which is looked."""
    above = first_looked_at(boundary, head, lookback)
    assert above <= head - lookback
    assert boundary is None or above < boundary.block.number


ENDED = st.builds(
    lambda number, job, is_succeeded: Ended(
        UUID(int=number), job and UUID(int=job), Address(bytes(20)), 0, "mined", None, Block(1, bytes(32)), is_succeeded
    ),
    st.integers(1, 100),
    st.none() | st.integers(1, 3),
    st.booleans(),
)


@given(st.lists(ENDED, unique_by=lambda one: one.lineage_id, max_size=10))
def test_a_job_has_one_heir_and_never_beside_another_lineage(ended: list[Ended]) -> None:
    """Goal: I2 in a revival. Method: each job that nothing has succeeded has its newest lineage back, and no other."""
    found = heirs(ended)
    wanted = {one.job_id for one in ended if one.job_id is not None and not one.is_succeeded}
    assert {one.job_id for one in found} == wanted
    assert len(found) == len(wanted)
    for one in found:
        rivals = [other for other in ended if other.job_id == one.job_id and not other.is_succeeded]
        assert one.lineage_id == max(other.lineage_id for other in rivals)


@given(st.integers(1, 900), st.data())
def test_a_bracket_closes_on_the_block_of_the_use_in_three_rounds(width: int, data: st.DataObject) -> None:
    """Goal: few rounds, and the right block. Method: an account whose count rises at chosen heights; the block found is
    the first after which the count is above the nonce; what rose before the bracket is told as such."""
    below = data.draw(st.integers(0, 50))
    above = below + width
    rises = data.draw(st.lists(st.integers(below - 5, above), min_size=1, max_size=20).map(sorted))
    nonce = data.draw(st.integers(0, len(rises) - 1))
    used_at = rises[nonce]

    def count(height: int) -> int:
        return sum(rise <= height for rise in rises)

    bracket: Bracket | None = Bracket(below, above)
    rounds = 0
    while bracket is not None and not bracket.is_closed:
        rounds += 1
        probes = bracket.probes(16)
        assert len(probes) <= 18
        bracket = bracket.narrowed(nonce, {height: count(height) for height in probes})
    assert rounds <= 3
    if used_at <= below:
        assert bracket is None
    else:
        assert bracket is not None
        assert bracket.above == used_at


@given(st.integers(2, 900), st.integers(0, 5), st.sets(st.integers(0, 900)))
def test_what_was_not_told_changes_no_bracket(width: int, nonce: int, told: set[int]) -> None:
    """Goal: silence is no count. Method: answers outside the bracket, or none at all, leave it as it is."""
    bracket = Bracket(1_000, 1_000 + width)
    assert bracket.narrowed(nonce, dict.fromkeys(told, nonce)) == bracket
    assert bracket.narrowed(nonce, {}) == bracket


def test_looks_are_counted_as_moments() -> None:
    """Goal: three answers within a second are one look. Method: a clock by hand; a lineage that is forgotten begins
    anew."""
    looks, one, other = Looks(10), UUID(int=1), UUID(int=2)
    assert [looks.count(one, now) for now in (0, 1, 9.9, 10, 15, 20)] == [1, 1, 1, 2, 2, 3]
    assert looks.count(other, 20) == 1
    looks.keep([other])
    assert (looks.count(one, 30), looks.count(other, 30)) == (1, 2)
