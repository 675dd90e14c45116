"""The keys a process holds, each under its name. Configuration carries them to custody, which alone opens them."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from tayho.custody.key_material import KeyMaterial
from tayho.kernel.address import Address


@frozen(eq=False)
class SignerKeys:
    """The pool's keys, in the order they were given, each under the address derived from it."""

    keys: Mapping[Address, KeyMaterial]

    @property
    def addresses(self) -> tuple[Address, ...]:
        return tuple(self.keys)

    def wipe(self) -> None:
        for material in self.keys.values():
            material.wipe()


@frozen(eq=False)
class JournalKeys:
    """The journal's keys by id. New rows are sealed under `active_id`; the others only open old rows."""

    # Invariant: active_id is one of the keys.
    active_id: str
    keys: Mapping[str, KeyMaterial]

    def wipe(self) -> None:
        for material in self.keys.values():
            material.wipe()
