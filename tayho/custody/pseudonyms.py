"""Names for strangers that nobody can trace back without the key: the same stranger has the same name everywhere."""

from __future__ import annotations

import hmac
from hashlib import sha256
from typing import final

from tayho.custody.errors import KeysRefused
from tayho.custody.key_material import KeyMaterial
from tayho.custody.key_text import EntryRefused, read_key
from tayho.custody.types import KeyFault, KeyProblem

# Half of the hash: two of a thousand million clients share a name with a chance of about one in 10**21.
_DIGITS = 32


@final
class Pseudonyms:
    """A keyed hash (HMAC-SHA256). Without the key, to try every address of the internet tells nothing."""

    __slots__ = ("_material",)

    def __init__(self, material: KeyMaterial) -> None:
        self._material = material

    def name_of(self, identity: str) -> str:
        """Thirty-two hex digits. Raises KeyWiped."""
        with self._material.revealed() as octets:
            return hmac.new(octets, identity.encode(), sha256).hexdigest()[:_DIGITS]

    def wipe(self) -> None:
        self._material.wipe()

    def __repr__(self) -> str:
        return "Pseudonyms(hidden)"


def parse_pseudonyms(text: str) -> Pseudonyms:
    """Read one key of 32 bytes, 0x and 64 hex digits. Raises KeysRefused."""
    try:
        material = read_key(text)
    except EntryRefused as refused:
        problem = KeyProblem(refused.fault, "the text", refused.detail)
    else:
        with material.revealed() as octets:
            if any(octets):
                return Pseudonyms(material)
        problem = KeyProblem(KeyFault.OUT_OF_RANGE, "the text", "it is all zeros")
    del text  # a renderer of locals would show it in this frame
    raise KeysRefused([problem])
