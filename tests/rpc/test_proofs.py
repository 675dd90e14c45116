"""What a header commits to is proven, and nothing else passes for it."""

from __future__ import annotations

from random import Random
from typing import Any, cast

import pytest
import rlp
from attrs import evolve, fields
from eth_utils.crypto import keccak
from hypothesis import given, settings
from hypothesis import strategies as st
from trie import HexaryTrie

from rpc import proofs, schemas
from rpc.account_proofs import EMPTY_CODE_HASH
from rpc.proofs import ProofRefuted, Unprovable
from rpc.trie import EMPTY_ROOT
from rpc.values import AccountProof, Header, StorageProof
from tests.rpc import examples
from tests.rpc.blocks import Block, block, forgeries, named, verify

SEEDS = st.integers(0, 2**32)
ADDRESS = b"\x11" * 20
NOBODY = b"\x22" * 20


@settings(deadline=None, max_examples=25)
@given(SEEDS, st.integers(0, 300))
def test_a_true_block_is_proven(seed: int, count: int) -> None:
    """Goal: no honest block is refused. Method: 0 to 300 transactions of all types, with all that can be in them."""
    made = block(Random(seed), count)
    verify(made)
    if not count:
        assert made.header.receipts_root == made.header.transactions_root == EMPTY_ROOT


@settings(deadline=None, max_examples=15)
@given(SEEDS, st.integers(1, 5))
def test_no_field_of_a_receipt_can_be_told_otherwise(seed: int, count: int) -> None:
    """Goal: the whole receipt is proven, its events too. Method: forge each field of each receipt, one at a time."""
    made = block(Random(seed), count)
    for place, receipt in enumerate(made.receipts):
        for path, forged in forgeries(receipt):
            if getattr(receipt, path, receipt) is None and path in {"status", "post_state_root"}:
                continue  # no reader gives both
            receipts = (*made.receipts[:place], forged, *made.receipts[place + 1 :])
            # Type 5 is not ours to judge: it is believed no more than it is refuted.
            with pytest.raises((ProofRefuted, Unprovable) if path == "type" else ProofRefuted):
                verify(evolve(made, receipts=receipts))
                pytest.fail(f"{path} of type {receipt.type} was believed")


@settings(deadline=None, max_examples=15)
@given(SEEDS, st.integers(1, 4))
def test_no_signed_field_of_a_transaction_can_be_told_otherwise(seed: int, count: int) -> None:
    """Goal: who called what is proven. Method: forge each field that the transaction's type signs, one at a time."""
    made = block(Random(seed), count)
    for place, transaction in enumerate(made.transactions):
        for path, forged in forgeries(transaction):
            name = path.split(" ")[0].split("[")[0]
            told = getattr(transaction, name)
            if told is None or told == () or (name == "chain_id" and transaction.type == 0):
                continue  # not part of its type, or (chain id) of what `v` says already
            transactions = (*made.transactions[:place], forged, *made.transactions[place + 1 :])
            with pytest.raises((ProofRefuted, Unprovable)):
                verify(evolve(made, transactions=transactions))
                pytest.fail(f"{path} of type {transaction.type} was believed")


@settings(deadline=None, max_examples=20)
@given(SEEDS)
def test_no_field_of_a_header_can_be_told_otherwise(seed: int) -> None:
    """Goal: the header is what its hash names. Method: forge each field; a header of Osaka, all fields there."""
    made = block(Random(seed), 2)
    for path, forged in forgeries(made.header):
        if path != "unknown_members":
            with pytest.raises((ProofRefuted, Unprovable)):
                proofs.verify_header(forged)
                pytest.fail(f"{path} was believed")


@settings(deadline=None, max_examples=20)
@given(SEEDS, st.integers(2, 6), st.data())
def test_receipts_are_whole_and_in_order(seed: int, count: int, draw: st.DataObject) -> None:
    """Goal: none is left out, given twice, or exchanged, even with its own words changed to fit its new place.

    Method: the receipts with one left out, repeated, and two exchanged; then one under its neighbour's name.
    """
    made = block(Random(seed), count)
    place = draw.draw(st.integers(0, count - 2))
    receipts = list(made.receipts)
    one, other = receipts[place : place + 2]
    renamed = evolve(one, transaction_hash=other.transaction_hash, logs=())
    for wrong in (
        receipts[:place] + receipts[place + 1 :],
        [*receipts, receipts[-1]],
        [*receipts[:place], other, one, *receipts[place + 2 :]],
        [*receipts[:place], renamed, *receipts[place + 1 :]],
        [],
    ):
        with pytest.raises(ProofRefuted):
            verify(evolve(made, receipts=tuple(wrong)))


def test_a_receipt_under_anothers_name_is_refuted() -> None:
    """Goal: the receipts root does not name transactions; the transactions root must.

    Method: two receipts exchange their transactions' names, which leaves the receipts root as it is.
    """
    made = block(Random(5), 6)
    plain = [place for place, receipt in enumerate(made.receipts) if not receipt.logs]
    first, second = plain[:2]
    receipts = list(made.receipts)
    receipts[first] = evolve(receipts[first], transaction_hash=made.receipts[second].transaction_hash)
    proofs.verify_receipts(made.header, receipts)
    with pytest.raises(ProofRefuted, match="transactionHash"):
        verify(evolve(made, receipts=tuple(receipts)))


@pytest.mark.parametrize("blobs", [False, True])
def test_a_list_of_transactions_that_makes_another_root_is_not_believed(blobs: bool) -> None:
    """Goal: a list whose every hash is its own must still be the block's. Method: leave one out, with blobs or not."""
    made = next(
        made
        for made in (block(Random(seed), 4) for seed in range(99))
        if any(each.type == 3 for each in made.transactions[:3]) == blobs
    )
    with pytest.raises(Unprovable if blobs else ProofRefuted, match="transactionsRoot"):
        proofs.verify_transactions(made.header, made.transactions[:3])


def without_later_forks(header: Header, names: int) -> Header:
    """The header of a chain before its last so many additions."""
    optional = (
        *("base_fee_per_gas_wei", "withdrawals_root", "blob_gas_used"),
        *("excess_blob_gas", "parent_beacon_block_root", "requests_hash"),
    )
    return evolve(header, **cast("Any", dict.fromkeys(optional[len(optional) - names :])))


@pytest.mark.parametrize("missing", range(1, 7))
def test_a_field_left_out_is_never_taken_for_an_older_fork(missing: int) -> None:
    """Goal: a header without its last fields has another hash, and says so. Method: headers of each fork, cut."""
    made = block(Random(1), 1)
    older = without_later_forks(made.header, missing)
    proofs.verify_header(evolve(older, hash=proofs.header_hash(older)))
    with pytest.raises(Unprovable, match="its fields do not make its hash; one is false, or the node left some out"):
        proofs.verify_header(older)


@pytest.mark.parametrize("name", ["uncles_hash", "difficulty", "extra_data", "mix_hash", "nonce", "withdrawals_root"])
def test_a_header_with_a_gap_cannot_be_proven(name: str) -> None:
    """Goal: a node that leaves fields out is told from one that lies. Method: leave out one that others follow."""
    made = block(Random(1), 1)
    with pytest.raises(Unprovable, match="was told without"):
        proofs.verify_header(evolve(made.header, **cast("Any", {name: None})))


def test_a_later_forks_field_is_named() -> None:
    """Goal: a header we cannot hash fails clearly, and why. Method: a member of a fork to come, hashed or not."""
    made = block(Random(1), 1)
    document = examples.block(blockAccessListHash="0x" + "77" * 32, slotNumber="0x1")
    assert schemas.header(document).unknown_members == ("blockAccessListHash", "slotNumber")
    harmless = evolve(made.header, unknown_members=("l1BlockNumber",))
    proofs.verify_header(harmless)
    with pytest.raises(Unprovable, match="perhaps of a later fork: blockAccessListHash"):
        proofs.verify_header(evolve(made.header, hash=bytes(32), unknown_members=("blockAccessListHash",)))
    with pytest.raises(ProofRefuted, match="the hash is 0x0000"):
        proofs.verify_header(evolve(made.header, hash=bytes(32)))


def test_a_type_we_do_not_know_is_not_refuted() -> None:
    """Goal: a later fork's transaction is no lie. Method: a receipt of type 5, and a block of another chain's type."""
    made = block(Random(1), 2)
    with pytest.raises(Unprovable, match="type 5"):
        proofs.verify_receipts(made.header, [evolve(made.receipts[0], type=5)])


class State:
    """A state of accounts and one contract's storage, by py-trie; proofs as a node gives them."""

    def __init__(self, storage: dict[int, int], accounts: int) -> None:
        self._storage = HexaryTrie({})
        for slot, value in storage.items():
            self._storage[keccak(slot.to_bytes(32, "big"))] = rlp.encode(value)
        self.code_hash = bytes(keccak(b"code"))
        self._state = HexaryTrie({})
        for number in range(accounts):
            self._state[keccak(b"someone" + bytes([number]))] = rlp.encode([1, number, EMPTY_ROOT, EMPTY_CODE_HASH])
        self._state[keccak(ADDRESS)] = rlp.encode([5, 10**18, self._storage.root_hash, self.code_hash])
        self.root = bytes(self._state.root_hash)
        self._values = storage

    def proof(self, address: bytes, slots: list[int]) -> AccountProof:
        nodes = tuple(rlp.encode(node) for node in self._state.get_proof(keccak(address)))
        if address != ADDRESS:
            return AccountProof(
                address, 0, 0, EMPTY_CODE_HASH, EMPTY_ROOT, nodes, tuple(StorageProof(slot, 0, ()) for slot in slots)
            )
        storage = tuple(StorageProof(slot, self._values.get(slot, 0), self._nodes(slot)) for slot in slots)
        return AccountProof(address, 5, 10**18, self.code_hash, bytes(self._storage.root_hash), nodes, storage)

    def _nodes(self, slot: int) -> tuple[bytes, ...]:
        return tuple(rlp.encode(node) for node in self._storage.get_proof(keccak(slot.to_bytes(32, "big"))))


STORAGES = st.dictionaries(st.integers(0, 40), st.integers(1, 2**256 - 1), max_size=12)


@settings(deadline=None, max_examples=40)
@given(STORAGES, st.integers(0, 40), st.lists(st.integers(0, 40), max_size=3, unique=True))
def test_accounts_are_proven_there_or_not(storage: dict[int, int], accounts: int, slots: list[int]) -> None:
    """Goal: nonce, balance, code, storage, and that there is none. Method: states made by py-trie."""
    state = State(storage, accounts)
    for address in (ADDRESS, NOBODY):
        proofs.verify_account(state.root, address, state.proof(address, slots), slots)


@settings(deadline=None, max_examples=20)
@given(STORAGES, st.integers(0, 40), st.lists(st.integers(0, 40), max_size=3, unique=True))
def test_no_field_of_an_account_can_be_told_otherwise(storage: dict[int, int], accounts: int, slots: list[int]) -> None:
    """Goal: an account is proven whole. Method: forge each field of the proof, one at a time, nodes included."""
    state = State(storage, accounts)
    for address in (ADDRESS, NOBODY):
        for path, forged in forgeries(state.proof(address, slots)):
            with pytest.raises(ProofRefuted):
                proofs.verify_account(state.root, address, forged, slots)
                pytest.fail(f"{path} was believed")


def test_an_account_cannot_be_denied() -> None:
    """Goal: what is there cannot be shown as empty. Method: another's proof of absence, the account's own nodes."""
    state = State({1: 1}, 9)
    true = state.proof(ADDRESS, [])
    for nodes in (state.proof(NOBODY, []).nodes, true.nodes, true.nodes[:-1], ()):
        denied = AccountProof(ADDRESS, 0, 0, EMPTY_CODE_HASH, EMPTY_ROOT, nodes, ())
        with pytest.raises(ProofRefuted):
            proofs.verify_account(state.root, ADDRESS, denied, [])


def test_an_empty_account_may_be_told_in_two_ways() -> None:
    """Goal: honest nodes differ in how they write no code. Method: the empty hashes, and zeros."""
    state = State({}, 3)
    told = state.proof(NOBODY, [7])
    proofs.verify_account(state.root, NOBODY, evolve(told, code_hash=bytes(32), storage_root=bytes(32)), [7])


def test_every_field_of_a_header_is_hashed() -> None:
    """Goal: a field added to Header is added to its hash. Method: change each; the hash must change."""
    header = named(block(Random(3), 0)).header
    for attribute in fields(Header):
        if attribute.name in {"hash", "unknown_members"}:
            continue
        told = getattr(header, attribute.name)
        other = told + 1 if isinstance(told, int) else told + b"\x01"
        assert proofs.header_hash(evolve(header, **{attribute.name: other})) != proofs.header_hash(header)


def test_the_example_block_is_used_whole() -> None:
    """Goal: the forgeries above reach every field. Method: count the paths of one block with events."""
    made: Block = block(Random(8), 5)
    paths = {path.split("[")[0].split(" ")[0] for receipt in made.receipts for path, _ in forgeries(receipt)}
    assert {name.name for name in fields(type(made.receipts[0]))} - {"status"} <= paths
