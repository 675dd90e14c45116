"""Reads compiled contracts: those that ship, and a team's own.

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

from attrs import frozen
from cattrs import BaseValidationError, Converter, transform_error

from tayho.protocol.codec import is_abi_type
from tayho.protocol.types import Artifact, Member, Parameter

_PACKAGE = "tayho.protocol"


class ArtifactMissing(LookupError):
    """No artifact of that name ships in the package."""


class ArtifactRefused(ValueError):
    """The document is no compiled contract that can be used."""


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
