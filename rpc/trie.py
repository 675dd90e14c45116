"""The Merkle Patricia trie (Yellow Paper, appendix D): the root of a whole set, and proofs of single entries.

Written here rather than taken from `trie`: that library keeps every node of every step to make a root, eight times
the work and on the event loop, and takes proofs as an unordered bag, so that nodes which prove nothing pass unseen.
The tests hold both parts to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise, takewhile

from attrs import frozen
from eth_utils.crypto import keccak
from rlp.exceptions import RLPException  # pyright: ignore[reportMissingTypeStubs]

from rpc.rlp_items import Rlp, decode, encode

EMPTY_ROOT = bytes(keccak(encode(b"")))
"""The root of a trie without entries."""

_HASH_BYTES = 32
_BRANCH_ITEMS = 17
_LEAF = 2
_ODD = 1


@frozen
class BadProof(Exception):
    """The nodes do not lead from the root to the key's place: they prove nothing."""

    detail: str

    def __str__(self) -> str:
        return self.detail


def root_of(entries: Mapping[bytes, bytes]) -> bytes:
    """The root of the trie of these entries. Raises ValueError for an empty value: a trie cannot hold one."""
    if not entries:
        return EMPTY_ROOT
    if not all(entries.values()):
        raise ValueError("a trie holds no empty value")
    return bytes(keccak(encode(_node(sorted((_nibbles(key), value) for key, value in entries.items())))))


def proven(root: bytes, key: bytes, nodes: Sequence[bytes]) -> bytes | None:
    """What the trie with this root holds at `key`; None where the nodes prove that it holds nothing there.

    `nodes` are the encoded nodes on the way from the root, in order, with none left over. Raises BadProof.
    """
    if root == EMPTY_ROOT:
        if any(node != encode(b"") for node in nodes):
            raise BadProof("an empty trie has no nodes")
        return None
    return _Walk(nodes).from_root(root, _nibbles(key))


def _node(entries: Sequence[tuple[bytes, bytes]]) -> Rlp:
    """The node over these entries (nibbles left, value), sorted and not empty."""
    first, value = entries[0]
    if len(entries) == 1:
        return [_compact(first, _LEAF), value]
    # Sorted, so the first and the last share what all share.
    pairs = zip(first, entries[-1][0], strict=False)
    if shared := sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs)):
        return [_compact(first[:shared], 0), _reference(_node(_below(entries, shared)))]
    ends_here = not first
    starts = _starts(entries, 1 if ends_here else 0)
    children: list[Rlp] = [b""] * 16
    for start, end in pairwise([*starts, len(entries)]):
        children[entries[start][0][0]] = _reference(_node(_below(entries[start:end], 1)))
    return [*children, value if ends_here else b""]


def _starts(entries: Sequence[tuple[bytes, bytes]], begin: int) -> list[int]:
    """Where in the sorted entries each first nibble begins."""
    return [at for at in range(begin, len(entries)) if at == begin or entries[at][0][0] != entries[at - 1][0][0]]


def _below(entries: Sequence[tuple[bytes, bytes]], depth: int) -> Sequence[tuple[bytes, bytes]]:
    return [(nibbles[depth:], value) for nibbles, value in entries]


def _reference(node: Rlp) -> Rlp:
    """How a parent names the node: itself while short, else its hash."""
    encoded = encode(node)
    return node if len(encoded) < _HASH_BYTES else bytes(keccak(encoded))


def _nibbles(key: bytes) -> bytes:
    """A byte for each half byte."""
    return bytes(nibble for octet in key for nibble in (octet >> 4, octet & 15))


def _compact(nibbles: bytes, kind: int) -> bytes:
    """Hex-prefix encoding: kind and parity in the first nibble (Yellow Paper, appendix C)."""
    odd = len(nibbles) % 2
    head = bytes([kind | odd]) if odd else bytes([kind, 0])
    whole = head + nibbles
    return bytes(whole[at] << 4 | whole[at + 1] for at in range(0, len(whole), 2))


class _Walk:
    """One way down from the root over given nodes.

    Invariant: a node is decoded only once its hash, or the parent that holds it, is known to be right; then it is
    what an honest builder made, and its shape needs no doubt beyond what the trie itself could hold.
    """

    def __init__(self, nodes: Sequence[bytes]) -> None:
        self._nodes = nodes
        self._used = 0

    def from_root(self, root: bytes, nibbles: bytes) -> bytes | None:
        reference: Rlp = root
        while True:
            node = self._resolved(reference)
            below = _step(node, nibbles)
            if below is None or isinstance(below, bytes):
                self._require_all_used()
                return below
            reference, nibbles = below

    def _resolved(self, reference: Rlp) -> Sequence[Rlp]:
        if not isinstance(reference, bytes):
            # Held by its parent. Some nodes list it all the same.
            if self._used < len(self._nodes) and self._nodes[self._used] == encode(reference):
                self._used += 1
            return reference
        if self._used == len(self._nodes):
            raise BadProof(f"the node 0x{reference.hex()} is missing")
        encoded = self._nodes[self._used]
        if keccak(encoded) != reference:
            raise BadProof(f"node {self._used} is not the one its parent names, 0x{reference.hex()}")
        self._used += 1
        try:
            node = decode(encoded)
        except RLPException as error:
            raise BadProof(f"node {self._used - 1} is no RLP") from error
        if isinstance(node, bytes):
            raise BadProof(f"node {self._used - 1} is no node")
        return node

    def _require_all_used(self) -> None:
        if self._used != len(self._nodes):
            raise BadProof(f"{len(self._nodes) - self._used} nodes are not on the way to the key")


def _step(node: Sequence[Rlp], nibbles: bytes) -> bytes | tuple[Rlp, bytes] | None:
    """One node down: the value, or None where the key has none, or the child's reference and the nibbles left."""
    if len(node) == _BRANCH_ITEMS:
        if not nibbles:
            return _value(node[16])
        child = node[nibbles[0]]
        return None if child == b"" else (child, nibbles[1:])
    if len(node) != 2 or not isinstance(node[0], bytes) or not node[0]:
        raise BadProof("a node is neither a branch, an extension nor a leaf")
    path = _nibbles(node[0])
    own = path[1:] if path[0] & _ODD else path[2:]
    if path[0] & _LEAF:
        return _value(node[1]) if own == nibbles else None
    return (node[1], nibbles[len(own) :]) if nibbles[: len(own)] == own else None


def _value(item: Rlp) -> bytes | None:
    if not isinstance(item, bytes):
        raise BadProof("a value is a list")
    return item or None
