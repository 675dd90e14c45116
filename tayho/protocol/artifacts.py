"""Compiled contracts as frozen values: bytecode, selectors and event topics.

The reference contracts ship inside the package (INT-9): `contracts/NAME.sol` is the source, `artifacts/NAME.json` what
`tools/compile_contracts.mjs` made of it. A team's own contract enters through `parse`, from the ABI its compiler wrote.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import TypeVar

from attrs import field, frozen
from cattrs import BaseValidationError, Converter, transform_error
from eth_utils.crypto import keccak

from tayho.protocol.codec import is_abi_type

_PACKAGE = "tayho.protocol"
SELECTOR_BYTES = 4


class ArtifactMissing(LookupError):
    """No artifact of that name ships in the package."""


class ArtifactRefused(ValueError):
    """The document is no compiled contract that can be used."""


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

    @property
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
class _ParameterDocument:
    type: str
    name: str = ""
    indexed: bool = False
    components: tuple[_ParameterDocument, ...] = ()


@frozen
class _EntryDocument:
    type: str
    name: str = ""
    anonymous: bool = False
    inputs: tuple[_ParameterDocument, ...] = ()
    outputs: tuple[_ParameterDocument, ...] = ()


@frozen
class _ArtifactDocument:
    contract: str
    compiler: str
    abi: tuple[_EntryDocument, ...]
    bytecode: bytes
    deployedBytecode: bytes  # noqa: N815 - the compiler's spelling


Document = TypeVar("Document")


def _hex_bytes(value: object, _: type) -> bytes:
    if not isinstance(value, str) or not value.startswith("0x"):
        raise ValueError("expected 0x and hex digits")
    return bytes.fromhex(value[2:])


_documents = Converter()
_documents.register_structure_hook(bytes, _hex_bytes)


@cache
def load(contract: str) -> Artifact:
    """The artifact of a reference contract. Raises ArtifactMissing."""
    try:
        text = resources.files(_PACKAGE).joinpath("artifacts").joinpath(f"{contract}.json").read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ArtifactMissing(f"no contract {contract} ships with {_PACKAGE}: reinstall the package") from error
    return parse(text)


def source(contract: str) -> str:
    """The Solidity source of a reference contract. Raises ArtifactMissing."""
    try:
        return resources.files(_PACKAGE).joinpath("contracts").joinpath(f"{contract}.sol").read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ArtifactMissing(f"no source of {contract} ships with {_PACKAGE}: reinstall the package") from error


def parse(text: str) -> Artifact:
    """Read an artifact document, in the form that `tools/compile_contracts.mjs` writes. Raises ArtifactRefused."""
    try:
        document = _documents.structure(json.loads(text), _ArtifactDocument)
    except json.JSONDecodeError as error:
        raise ArtifactRefused(f"an artifact is a JSON document: {error}") from error
    except BaseValidationError as error:
        raise ArtifactRefused(f"not an artifact: {'; '.join(transform_error(error))}") from error
    constructors = _members(entry for entry in document.abi if entry.type == "constructor")
    return Artifact(
        contract=document.contract,
        compiler=document.compiler,
        bytecode=document.bytecode,
        deployed_bytecode=document.deployedBytecode,
        constructor=constructors[0] if constructors else Member("", ()),
        functions=_by_name(_members(entry for entry in document.abi if entry.type == "function")),
        events=_by_name(_members(entry for entry in document.abi if entry.type == "event" and not entry.anonymous)),
        errors=_by_name(_members(entry for entry in document.abi if entry.type == "error")),
    )


def _members(entries: Iterable[_EntryDocument]) -> list[Member]:
    return [Member(entry.name, _parameters(entry.inputs), _parameters(entry.outputs)) for entry in entries]


def _parameters(documents: Sequence[_ParameterDocument]) -> tuple[Parameter, ...]:
    return tuple(
        Parameter(document.name or str(position), _canonical_type(document), document.indexed)
        for position, document in enumerate(documents)
    )


def _canonical_type(document: _ParameterDocument) -> str:
    name = document.type
    if name.startswith("tuple"):
        inner = ",".join(_canonical_type(component) for component in document.components)
        name = f"({inner}){name.removeprefix('tuple')}"
    if not is_abi_type(name):
        raise ArtifactRefused(f"{document.type} of the parameter {document.name!r} is no ABI type")
    return name


def _by_name(members: Sequence[Member]) -> Mapping[str, Member]:
    names = [member.name for member in members]
    unique = {member.name: member for member in members if names.count(member.name) == 1}
    return MappingProxyType({**unique, **{member.signature: member for member in members}})
