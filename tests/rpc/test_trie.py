"""Our trie against `trie` (py-trie), which others wrote: the same roots, and proofs that only the truth passes."""

from __future__ import annotations

from typing import cast

import pytest
import rlp
from eth_utils.crypto import keccak
from hypothesis import given, settings
from hypothesis import strategies as st
from trie import HexaryTrie

from rpc.trie import EMPTY_ROOT, BadProof, proven, root_of

KEYS = st.one_of(st.binary(min_size=1, max_size=3), st.binary(min_size=0, max_size=2).map(lambda tail: b"\x11" + tail))
VALUES = st.binary(min_size=1, max_size=40)
ENTRIES = st.dictionaries(KEYS, VALUES, max_size=30)


def theirs(entries: dict[bytes, bytes]) -> HexaryTrie:
    trie = HexaryTrie({})
    for key, value in entries.items():
        trie[key] = value
    return trie


def proof(trie: HexaryTrie, key: bytes) -> list[bytes]:
    """Their nodes on the way to the key, as a node of a chain lists them: those that a hash names."""
    nodes = [rlp.encode(node) for node in trie.get_proof(key)]
    return [node for place, node in enumerate(nodes) if place == 0 or len(node) >= 32]


def hashed(number: int) -> dict[bytes, bytes]:
    return {bytes(keccak(bytes([place]))): bytes([place]) * 40 for place in range(1, number + 1)}


@given(ENTRIES)
def test_our_root_is_theirs(entries: dict[bytes, bytes]) -> None:
    """Goal: the root of any set. Method: keys that share prefixes and end inside others, short and long values."""
    assert root_of(entries) == theirs(entries).root_hash


@settings(deadline=None)
@given(st.integers(0, 300), st.integers(1, 60))
def test_the_root_of_a_list_is_theirs(length: int, size: int) -> None:
    """Goal: the roots of blocks, keyed by index. Method: lists up to 300 long."""
    entries = {cast("bytes", rlp.encode(index)): bytes([1 + index % 255]) * size for index in range(length)}
    assert root_of(entries) == theirs(entries).root_hash


@given(ENTRIES, KEYS)
def test_a_proof_tells_what_is_there_and_what_is_not(entries: dict[bytes, bytes], key: bytes) -> None:
    """Goal: inclusion and exclusion. Method: their proofs of present and of absent keys, walked by ours."""
    trie = theirs(entries)
    for asked in {key, *entries}:
        assert proven(root_of(entries), asked, proof(trie, asked) if entries else []) == entries.get(asked)


@given(ENTRIES.filter(bool), KEYS)
def test_nodes_held_by_their_parents_may_be_listed(entries: dict[bytes, bytes], key: bytes) -> None:
    """Goal: both ways in which nodes list short nodes. Method: their proofs with every node in its place."""
    listed = [rlp.encode(node) for node in theirs(entries).get_proof(key)]
    assert proven(root_of(entries), key, [node for node in listed if node != b"\x80"]) == entries.get(key)


@given(st.integers(1, 30), st.data())
def test_a_changed_proof_proves_nothing(number: int, draw: st.DataObject) -> None:
    """Goal: no node can be bent. Method: flip any bit of any node, and ask at another root."""
    entries = hashed(number)
    key = draw.draw(st.sampled_from(sorted(entries)))
    nodes = proof(theirs(entries), key)
    place = draw.draw(st.integers(0, len(nodes) - 1))
    bit = draw.draw(st.integers(0, 8 * len(nodes[place]) - 1))
    bent = bytearray(nodes[place])
    bent[bit // 8] ^= 1 << bit % 8
    with pytest.raises(BadProof):
        proven(root_of(entries), key, [*nodes[:place], bytes(bent), *nodes[place + 1 :]])
    with pytest.raises(BadProof):
        proven(bytes(keccak(b"another root")), key, nodes)


@given(st.integers(2, 30), st.data())
def test_a_proof_has_each_node_once_and_in_order(number: int, draw: st.DataObject) -> None:
    """Goal: nothing passes that proves nothing. Method: leave nodes out, add some, turn them round."""
    entries = hashed(number)
    key = draw.draw(st.sampled_from(sorted(entries)))
    nodes = proof(theirs(entries), key)
    for wrong in (nodes[:-1], nodes[1:], [*nodes, nodes[-1]], [*nodes, b"\x80"], [b"", *nodes], nodes[::-1]):
        if wrong != nodes:
            with pytest.raises(BadProof):
                proven(root_of(entries), key, wrong)


def test_absence_is_not_proven_by_a_shorter_way() -> None:
    """Goal: what is there cannot be hidden. Method: proofs of every other key for each key that is there."""
    entries = hashed(12)
    trie = theirs(entries)
    for key in entries:
        for other in entries:
            if other != key:
                with pytest.raises(BadProof):
                    proven(root_of(entries), key, proof(trie, other))


def test_an_empty_trie_holds_nothing() -> None:
    """Goal: both ways in which nodes prove from an empty trie. Method: no node, and the empty node."""
    assert (
        root_of({}) == EMPTY_ROOT == bytes.fromhex("56e81f171bcc55a6ff8345e692c0f86e5b48e01b996cadc001622fb5e363b421")
    )
    assert proven(EMPTY_ROOT, b"key", []) is None
    assert proven(EMPTY_ROOT, b"key", [b"\x80"]) is None
    with pytest.raises(BadProof):
        proven(EMPTY_ROOT, b"key", [b"\xc0"])
    with pytest.raises(ValueError, match="no empty value"):
        root_of({b"key": b""})


@pytest.mark.parametrize("node", [b"\x80", b"\xc0", b"\xc1\x80", b"\xc2\xc0\x01", b"\xb8", b"\xc3\x20\x01\x02"])
def test_a_root_that_is_no_trie_is_refused(node: bytes) -> None:
    """Goal: no shape raises anything else. Method: roots over bytes that no trie has, and nodes of wrong lengths."""
    root = bytes(keccak(node))
    if root != EMPTY_ROOT:
        with pytest.raises(BadProof):
            proven(root, b"key", [node])
