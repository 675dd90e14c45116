"""The values of this room: a compiled contract, why it reverted, and the counter's event."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from attrs import field, frozen
from eth_utils.crypto import keccak

from tayho.kernel.address import Address

SELECTOR_BYTES = 4


@frozen
class Parameter:
    """One argument or result. A parameter without a name is called by its position."""

    name: str
    type_name: str
    indexed: bool = False


@frozen
class Member:
    """A function, event or custom error of a contract, known on the wire by the Keccak hash of its signature."""

    name: str
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...] = ()

    @property
    def signature(self) -> str:
        """The canonical signature of the Solidity ABI specification, as in `record(bytes32)`."""
        return f"{self.name}({','.join(parameter.type_name for parameter in self.inputs)})"

    @cached_property
    def topic(self) -> bytes:
        """The first topic of an event's log: thirty-two bytes."""
        return bytes(keccak(text=self.signature))

    @property
    def selector(self) -> bytes:
        """The first four bytes of a call's data or of a custom error's data."""
        return self.topic[:SELECTOR_BYTES]


@frozen
class Artifact:
    """A compiled contract.

    Members are found by their signature and, where it names only one, by their plain name. Anonymous events are left
    out: no topic tells them apart from another contract's.
    """

    contract: str
    compiler: str
    bytecode: bytes = field(repr=False)
    deployed_bytecode: bytes = field(repr=False)
    constructor: Member
    functions: Mapping[str, Member]
    events: Mapping[str, Member]
    errors: Mapping[str, Member]


@frozen
class RevertReason:
    """Why a call reverted: the error's name and its arguments by name."""

    name: str
    values: Mapping[str, object]

    def __str__(self) -> str:
        shown = {name: f"0x{value.hex()}" if isinstance(value, bytes) else value for name, value in self.values.items()}
        return f"{self.name}({', '.join(f'{name}={value}' for name, value in shown.items())})"


@frozen
class Recorded:
    """The counter's event: the effect of one job on the chain. `count` numbers the records since deployment."""

    event_id: bytes
    sender: Address
    count: int
