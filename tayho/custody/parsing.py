"""SIGNER_KEYS and TX_JOURNAL_KEYS: from text to key material, or every problem at once, none of them quoting a key."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from hmac import compare_digest

from tayho.custody.derivation import derived_address
from tayho.custody.errors import KeysRefused
from tayho.custody.key_material import KeyMaterial
from tayho.custody.key_rings import JournalKeys, SignerKeys
from tayho.custody.key_text import EntryRefused, KeyEntry, problems_of, read_key
from tayho.custody.types import KeyFault, KeyProblem
from tayho.kernel.address import Address, AddressRefused

# At most 32 characters, so that 32 bytes in hex are never taken for an id, which is stored in every row and printed.
_KEY_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}")
_KEY_ID_GRAMMAR = "an id has 1 to 32 letters, digits, dots, dashes and underscores, the first a letter or a digit"


def parse_signer_keys(text: str) -> SignerKeys:
    """Read a JSON list of 0x keys, or an object of address to 0x key.

    Raises KeysRefused with every problem found: malformed or repeated keys, numbers that are no secp256k1 key, an
    address that is not its key's.
    """
    keys: dict[Address, KeyMaterial] = {}
    problems = problems_of(text, partial(_admit_signer, keys), list_allowed=True)
    del text  # a renderer of locals would show it in this frame
    if problems:
        _wipe(keys.values())
        raise KeysRefused(problems)
    return SignerKeys(keys)


def parse_journal_keys(text: str, active_id: str) -> JournalKeys:
    """Read a JSON object of key id to 32-byte 0x key.

    Raises KeysRefused with every problem found: malformed or repeated ids, malformed or repeated keys, no key under
    `active_id`.
    """
    keys: dict[str, KeyMaterial] = {}
    ids: set[str] = set()
    problems = problems_of(text, partial(_admit_journal_key, keys, ids), list_allowed=False)
    if active_id not in ids:
        problems.append(KeyProblem(KeyFault.ACTIVE_ID_MISSING, "the active key id", "name one of the ids"))
    del text, ids
    if problems:
        del active_id  # it may be a key that was put into the wrong variable
        _wipe(keys.values())
        raise KeysRefused(problems)
    return JournalKeys(active_id, keys)


def _admit_signer(keys: dict[Address, KeyMaterial], entry: KeyEntry) -> None:
    stated = None if entry.name is None else _address(entry.name)
    material = read_key(entry.value)
    address = derived_address(material)
    if address is None:
        raise EntryRefused(KeyFault.OUT_OF_RANGE, "it is zero, or not below the order of the group")
    if stated is not None and stated != address:
        raise EntryRefused(KeyFault.ADDRESS_DIFFERS, f"the key of {address} stands under {stated}")
    if address in keys:
        raise EntryRefused(KeyFault.KEY_TWICE, f"the key of {address} was given before")
    keys[address] = material


def _address(name: str) -> Address:
    try:
        return Address.parse(name)
    except AddressRefused:
        raise EntryRefused(
            KeyFault.ADDRESS_MALFORMED, "expected 0x and 40 hex digits, mixed case only as EIP-55"
        ) from None


def _admit_journal_key(keys: dict[str, KeyMaterial], ids: set[str], entry: KeyEntry) -> None:
    key_id = entry.name
    if key_id is None or _KEY_ID.fullmatch(key_id) is None:
        raise EntryRefused(KeyFault.KEY_ID_MALFORMED, _KEY_ID_GRAMMAR)
    if key_id in ids:
        raise EntryRefused(KeyFault.KEY_ID_TWICE, f"{key_id!r} stood before")
    ids.add(key_id)
    material = read_key(entry.value)
    with material.revealed() as octets:
        if not any(octets):
            raise EntryRefused(KeyFault.OUT_OF_RANGE, "it is all zeros")
    for other_id, other in keys.items():
        if _same(material, other):
            raise EntryRefused(KeyFault.KEY_TWICE, f"{key_id!r} has the key of {other_id!r}")
    keys[key_id] = material


def _wipe(materials: Iterable[KeyMaterial]) -> None:
    for material in materials:
        material.wipe()


def _same(one: KeyMaterial, other: KeyMaterial) -> bool:
    with one.revealed() as left, other.revealed() as right:
        return compare_digest(left, right)
