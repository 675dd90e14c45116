"""Whether a JSON-RPC error says that the EVM reverted, and what the revert data says. Pure.

A revert is a verdict of the EVM; believing one that is none ends a job that another node would have completed. So a
code alone proves nothing: Alchemy answers code 3 for blocks it does not have yet (eRPC PR#999), and proxies answer a
bare failure for their own trouble (hyperlane PR#7550). Proof is the wording of an EVM, or revert data in the error.
Results are never searched for revert data: a contract may return such bytes rightly.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast

from attrs import frozen

from rpc.quantities import Unreadable, data

_ERROR = bytes.fromhex("08c379a0")  # Error(string)
_PANIC = bytes.fromhex("4e487b71")  # Panic(uint256)
_SELECTOR_BYTES = 4
_WORD = 32
_REVERT_CODE = 3  # geth, and whoever follows it
_REASON_BYTES_MAX = 1024

# Anchored at the start: a contract writes what follows, and may write anything.
_WORDING = re.compile(
    r"""\s*(?:error:\s*|err:\s*|evm\s+error:\s*)*
    (?: execution\ reverted \b                                  # geth, erigon, reth, anvil, besu, nethermind, arbitrum
      | vm\ exception\ while\ processing\ transaction:\ revert  # ganache, hardhat, frontier
      | transaction\ reverted\ (?:without|with|by|and|function) # hardhat
      | revert\ opcode\ executed                               # java-tron
      | revert(?:ed)? \s* (?:$|:|0x)                          # reth and anvil halts, nethermind
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_DATA_WORDING = re.compile(r"\s*revert(?:ed)?(?:\s+(?P<data>0x[0-9a-fA-F]*))?\s*", re.IGNORECASE)  # parity, nethermind

# Solidity documentation, "Panic via assert and Error via require".
_PANICS = {
    0x00: "generic panic",
    0x01: "assertion failed",
    0x11: "arithmetic overflow or underflow",
    0x12: "division or modulo by zero",
    0x21: "conversion to an enum value that does not exist",
    0x22: "badly encoded storage byte array",
    0x31: "pop from an empty array",
    0x32: "array index out of bounds",
    0x41: "too much memory allocated",
    0x51: "call of a zero-initialised internal function",
}


@frozen
class Revert:
    """The EVM reverted, with these data (possibly none)."""

    data: bytes


def revert_in(code: int, message: str, error_data: object) -> Revert | None:
    """The revert that a JSON-RPC error tells of, or None when it proves none."""
    said, content = _revert_data(error_data)
    # A custom error is any bytes: only beside the revert code do they prove a revert.
    custom_error = code == _REVERT_CODE and len(content) >= _SELECTOR_BYTES
    if said or custom_error or _WORDING.match(message) or revert_reason(content) is not None:
        return Revert(content)
    return None


def _revert_data(error_data: object) -> tuple[bool, bytes]:
    """Whether the data of the error themselves speak of a revert, and the revert data among them."""
    if isinstance(error_data, str):
        spoken = _DATA_WORDING.fullmatch(error_data)
        return (True, _bytes_or_none(spoken["data"])) if spoken else (False, _bytes_or_none(error_data))
    if isinstance(error_data, dict):
        members = cast("Mapping[str, object]", error_data)
        # Hardhat: {"message", "data"}; Ganache: {"0x<hash>": {"error": "revert", "return": "0x…"}}.
        if "data" in members:
            return _flat(members["data"])
        for value in members.values():
            if isinstance(value, dict) and cast("Mapping[str, object]", value).get("error") == "revert":
                return True, _bytes_or_none(cast("Mapping[str, object]", value).get("return"))
    return False, b""


def _flat(value: object) -> tuple[bool, bytes]:
    """The data member of an object of data; not followed deeper."""
    return _revert_data(value) if isinstance(value, str) else (False, b"")


def _bytes_or_none(value: object) -> bytes:
    try:
        return data(value)
    except Unreadable:
        return b""


def revert_reason(content: bytes) -> str | None:
    """What revert data say: the string of Error(string), the meaning of Panic(uint256), None for anything else.

    The string is the contract author's: cut to 1,024 bytes, decoding faults replaced.
    """
    selector, arguments = content[:_SELECTOR_BYTES], content[_SELECTOR_BYTES:]
    if selector == _PANIC and len(arguments) == _WORD:
        code = int.from_bytes(arguments, "big")
        return f"panic 0x{code:02x}: {_PANICS[code]}" if code in _PANICS else f"panic 0x{code:x}"
    if selector != _ERROR or len(arguments) < 2 * _WORD:
        return None
    offset = int.from_bytes(arguments[:_WORD], "big")
    length = int.from_bytes(arguments[_WORD : 2 * _WORD], "big")
    if offset != _WORD or length > len(arguments) - 2 * _WORD:
        return None
    return arguments[2 * _WORD :][: min(length, _REASON_BYTES_MAX)].decode("utf-8", "replace")
