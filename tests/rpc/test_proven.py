"""Proof instead of votes: one honest endpoint is enough, and whoever lies is named."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from attrs import evolve

from rpc.proof_errors import NotProven
from rpc.proven import ProvenReads
from rpc.provenance import Refutation
from rpc.values import Receipt
from tayho.custody.recovery import recovered
from tests.rpc.blocks import Block, block, named
from tests.rpc.proven_world import Majority, Told, all_failed, failed, other_root, too_large, unknown, unserved
from tests.rpc.test_proofs import ADDRESS, State

MADE = block(Random(4), 5)
RECEIPTS = "eth_getBlockReceipts"
RECEIPT = "eth_getTransactionReceipt"
BLOCK = "eth_getBlockByHash"
PROOF = "eth_getProof"
FORGES = {RECEIPTS: all_failed, RECEIPT: failed}


def told(lies: Sequence[dict[str, Any]], made: Block = MADE) -> list[Told]:
    return [Told(f"http://{name}", made, lies=each) for name, each in zip("abc", lies, strict=True)]


def reads(members: Sequence[Told], refuted: list[Refutation] | None = None) -> ProvenReads:
    return ProvenReads(members, Majority, recovered, None if refuted is None else refuted.append)


async def test_one_endpoint_is_asked_for_a_proof() -> None:
    """Goal: RPC-11, the cost. Method: three honest endpoints; only the first is asked for receipts, one is absent."""
    members = told([{}, {}, {}])
    wanted = [MADE.transactions[2].hash, bytes(32), MADE.transactions[2].hash]
    proven = await reads(members).receipts(MADE.header.hash, wanted)
    assert proven.value == {MADE.transactions[2].hash: MADE.receipts[2], bytes(32): None}
    assert (proven.by, proven.refuted) == ("http://a", ())
    assert [member.asked[RECEIPTS] for member in members] == [1, 0, 0]
    assert all(member.asked[RECEIPT] == 0 for member in members)


async def test_two_liars_of_three_are_refuted() -> None:
    """Goal: must show 2: votes would believe them. Method: two tell forged receipts, alike, over an honest header."""
    members = told([FORGES, FORGES, {}])
    refuted: list[Refutation] = []
    wanted = MADE.transactions[0].hash
    proven = await reads(members, refuted).receipts(MADE.header.hash, [wanted])
    assert proven.value == {wanted: MADE.receipts[0]}
    assert (proven.by, proven.refuted) == ("http://c", ("http://a", "http://b"))
    assert [(each.endpoint, each.method, each.block_hash) for each in refuted] == [
        (endpoint, RECEIPTS, MADE.header.hash) for endpoint in ("http://a", "http://b")
    ]
    assert refuted[0].error.what == "receiptsRoot"
    assert isinstance(refuted[0].told, list)
    assert len(refuted[0].told) == 1


def exchanged(receipts: Sequence[Receipt]) -> tuple[Receipt, ...]:
    """Two receipts under each other's transaction, their events too: the receipts root does not see it."""
    first, second, *others = receipts
    return (under(first, second.transaction_hash), under(second, first.transaction_hash), *others)


def under(receipt: Receipt, name: bytes) -> Receipt:
    logs = tuple(evolve(log, transaction_hash=name) for log in receipt.logs)
    return evolve(receipt, transaction_hash=name, logs=logs)


async def test_a_receipt_of_another_transaction_is_refuted() -> None:
    """Goal: a true receipt of the same block under a wrong name is a lie too. Method: two names exchanged."""
    refuted: list[Refutation] = []
    wanted = MADE.transactions[0].hash
    proven = await reads(told([{RECEIPTS: exchanged}] * 2 + [{}]), refuted).receipts(MADE.header.hash, [wanted])
    assert (proven.value, proven.by) == ({wanted: MADE.receipts[0]}, "http://c")
    assert [each.error.what for each in refuted] == ["transactionHash"] * 2


STRANGER = next(
    made
    for made in (block(Random(seed), 1) for seed in range(99))
    if made.transactions[0].type == MADE.transactions[0].type
)


def of_a_stranger(answer: Any) -> Any:
    """The block with a transaction that was never in it in the first place, and a receipt that fits it in all."""
    if answer == MADE.header:
        return answer
    name = STRANGER.transactions[0].hash
    if answer == MADE.transactions:
        return (evolve(STRANGER.transactions[0], block_hash=MADE.header.hash), *answer[1:])
    stranger, first = STRANGER.receipts[0], under(answer[0], name)
    fitting = evolve(
        first,
        sender=stranger.sender,
        to=stranger.to,
        contract_address=stranger.contract_address,
        effective_gas_price_wei=stranger.effective_gas_price_wei,
    )
    return (fitting, *answer[1:])


async def test_a_transaction_that_is_not_in_the_block_is_not_believed() -> None:
    """Goal: no receipt for what was never mined. Method: a stranger told as mined, everything fitting but the root."""
    stranger = STRANGER.transactions[0].hash
    members = told([{BLOCK: of_a_stranger, RECEIPTS: of_a_stranger}, {}, {}])
    proven = await reads(members).receipts(MADE.header.hash, [stranger])
    assert (proven.value, proven.by) == ({stranger: None}, "http://b")
    assert "transactionsRoot" in proven.reasons[0]


async def test_liars_are_not_heard_where_votes_decide() -> None:
    """Goal: a proven lie has no vote. Method: two forge and the third serves no proof; then one forges."""
    wanted = MADE.transactions[0].hash
    with pytest.raises(NotProven, match="no majority"):
        await reads(told([FORGES, FORGES, {RECEIPTS: unserved}])).receipts(MADE.header.hash, [wanted])
    lies = [FORGES, {RECEIPTS: unserved}, {RECEIPTS: too_large}]
    proven = await reads(told(lies)).receipts(MADE.header.hash, [wanted])
    assert (proven.value, proven.by, proven.refuted) == ({wanted: MADE.receipts[0]}, None, ("http://a",))


@pytest.mark.parametrize("silent", [unserved, too_large, unknown])
async def test_where_nobody_proves_votes_decide(silent: Any) -> None:
    """Goal: nothing is worse than before. Method: nobody serves block receipts; a single liar is outvoted."""
    members = told([{RECEIPTS: silent}, {RECEIPTS: silent, RECEIPT: failed}, {RECEIPTS: silent}])
    wanted = MADE.transactions[1].hash
    proven = await reads(members).receipts(MADE.header.hash, [wanted])
    assert (proven.value, proven.by) == ({wanted: MADE.receipts[1]}, None)


async def test_one_that_serves_is_enough() -> None:
    """Goal: refusals do not lead to votes while anyone proves. Method: two refuse the proof and forge their votes."""
    members = told([{RECEIPTS: unserved, RECEIPT: failed}, {RECEIPTS: unserved, RECEIPT: failed}, {}])
    wanted = MADE.transactions[1].hash
    service = reads(members)
    for _ in range(2):
        proven = await service.receipts(MADE.header.hash, [wanted])
        assert (proven.value, proven.by) == ({wanted: MADE.receipts[1]}, "http://c")
    # The last that proved is asked first.
    assert [member.asked[RECEIPTS] for member in members] == [1, 1, 2]


async def test_a_header_that_two_tell_falsely_is_not_believed() -> None:
    """Goal: the hash is agreed, so a false header is seen even from a majority. Method: two tell another root."""
    lies = {BLOCK: lambda answer: other_root(answer) if answer == MADE.header else answer, RECEIPTS: unserved}
    proven = await reads(told([lies, lies, {}])).receipts(MADE.header.hash, [MADE.transactions[0].hash])
    assert (proven.value[MADE.transactions[0].hash], proven.by) == (MADE.receipts[0], "http://c")


async def test_a_header_that_one_tells_is_verified_too() -> None:
    """Goal: no header is taken that does not make the hash. Method: a false majority, then another lie when asked."""
    first = iter([other_root(MADE.header)])

    def another_each_time(answer: Any) -> Any:
        return next(first, evolve(MADE.header, receipts_root=b"\x07" * 32)) if answer == MADE.header else answer

    lies = {BLOCK: lambda answer: other_root(answer) if answer == MADE.header else answer, RECEIPTS: unserved}
    members = told([{BLOCK: another_each_time, RECEIPTS: unserved}, lies, {}])
    proven = await reads(members).receipts(MADE.header.hash, [MADE.transactions[0].hash])
    assert (proven.value[MADE.transactions[0].hash], proven.by, proven.refuted) == (MADE.receipts[0], "http://c", ())


async def test_a_chain_whose_headers_we_cannot_hash_is_voted_on() -> None:
    """Goal: a later fork or a node that tells less is no outage. Method: a header with a member we do not know."""
    strange = evolve(MADE, header=evolve(MADE.header, extra_data=b"x", unknown_members=("blockAccessListHash",)))
    members = told([{}, {}, {}], strange)
    proven = await reads(members).receipts(MADE.header.hash, [MADE.transactions[0].hash])
    assert (proven.value[MADE.transactions[0].hash], proven.by) == (MADE.receipts[0], None)
    assert all(member.asked[RECEIPTS] == 0 for member in members)


async def test_a_block_nobody_knows_proves_nothing() -> None:
    """Goal: a null is no absence. Method: a majority does not know the block."""
    with pytest.raises(NotProven, match="a majority does not know the block"):
        await reads(told([{BLOCK: unknown}, {BLOCK: unknown}, {}])).receipts(MADE.header.hash, [bytes(32)])


STATE = State({3: 9}, 5)
AT = named(evolve(MADE, header=evolve(MADE.header, state_root=STATE.root)))
TRUE = STATE.proof(ADDRESS, [])


def richer(proof: Any) -> Any:
    return evolve(proof, balance_wei=proof.balance_wei + 1, nonce=proof.nonce + 1)


def accounts(lies: Sequence[dict[str, Any]]) -> list[Told]:
    members = told(lies, AT)
    for member in members:
        member.account = TRUE
    return members


async def test_nonce_and_balance_are_proven() -> None:
    """Goal: RPC-11 for accounts. Method: two forge proof and answers alike; the third is honest."""
    forges = {PROOF: richer, "eth_getTransactionCount": lambda nonce: nonce + 1, "eth_getBalance": lambda wei: wei + 1}
    refuted: list[Refutation] = []
    nonce = await reads(accounts([forges, forges, {}]), refuted).nonce(ADDRESS, AT.header.hash)
    assert (nonce.value, nonce.by, nonce.refuted) == (5, "http://c", ("http://a", "http://b"))
    assert [(each.endpoint, each.method, each.error.what) for each in refuted] == [
        (endpoint, PROOF, "the account") for endpoint in ("http://a", "http://b")
    ]
    balance = await reads(accounts([{}, forges, forges])).balance_wei(ADDRESS, AT.header.hash)
    assert (balance.value, balance.by) == (10**18, "http://a")
    account = await reads(accounts([forges, {PROOF: unserved}, {}])).account(ADDRESS, AT.header.hash)
    assert (account.value, account.by) == (TRUE, "http://c")


async def test_nonces_are_voted_on_where_nobody_proves() -> None:
    """Goal: nodes without eth_getProof serve as before, but a proven liar has no vote. Method: as for receipts."""
    unserving = {PROOF: unserved}
    lying = {PROOF: richer, "eth_getTransactionCount": lambda nonce: nonce + 1}
    nonce = await reads(accounts([lying, unserving, unserving])).nonce(ADDRESS, AT.header.hash)
    assert (nonce.value, nonce.by, nonce.refuted) == (5, None, ("http://a",))
    with pytest.raises(NotProven, match="no majority"):
        await reads(accounts([lying, lying, unserving])).nonce(ADDRESS, AT.header.hash)
    with pytest.raises(NotProven, match=r"nothing is proven .*does not exist"):
        await reads(accounts([unserving] * 3)).account(ADDRESS, AT.header.hash)
