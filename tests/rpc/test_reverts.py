"""What proves a revert, and what does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpc.reverts import Revert, revert_in, revert_reason


def error_string(text: bytes, *, offset: int = 32, length: int | None = None) -> bytes:
    padded = text + b"\0" * (-len(text) % 32)
    size = len(text) if length is None else length
    return bytes.fromhex("08c379a0") + offset.to_bytes(32, "big") + size.to_bytes(32, "big") + padded


PANIC = bytes.fromhex("4e487b71") + (0x11).to_bytes(32, "big")
CUSTOM = bytes.fromhex("deadbeef") + b"\0" * 32
USER_ERROR = error_string(b"user error")

REVERTS = {
    "geth with data": (3, "execution reverted: user error", "0x" + USER_ERROR.hex(), USER_ERROR),
    "geth without data": (3, "execution reverted", "0x", b""),
    "old geth and erigon": (-32000, "execution reverted", None, b""),
    "geth, a reason that names missing data": (3, "execution reverted: header not found", None, b""),
    "anvil custom error": (3, "execution reverted: custom error 0xdeadbeef", "0x" + CUSTOM.hex(), CUSTOM),
    "a custom error beside the revert code": (3, "", "0x" + CUSTOM.hex(), CUSTOM),
    "besu": (-32000, "Execution reverted (user error)", "0x" + USER_ERROR.hex(), USER_ERROR),
    "hardhat with reason": (
        -32603,
        "Error: VM Exception while processing transaction: reverted with reason string 'user error'",
        {"message": "Error: VM Exception", "txHash": "0x00", "data": "0x" + USER_ERROR.hex()},
        USER_ERROR,
    ),
    "hardhat without reason": (-32603, "Error: Transaction reverted without a reason string", None, b""),
    "ganache": (
        -32000,
        "VM Exception while processing transaction: revert user error",
        {"0xab": {"error": "revert", "program_counter": 1, "return": "0x" + USER_ERROR.hex()}, "stack": "at ..."},
        USER_ERROR,
    ),
    "nethermind and parity": (-32015, "VM execution error.", "Reverted 0x" + USER_ERROR.hex(), USER_ERROR),
    "parity without data": (-32015, "VM execution error.", "Reverted", b""),
    "nethermind, bare word": (-32015, "revert", None, b""),
    "Solidity error under an unknown wording": (-32603, "Internal error", "0x" + PANIC.hex(), PANIC),
    "java-tron": (-32000, "REVERT opcode executed", "0x", b""),
}

NO_REVERTS = {
    "Alchemy: code 3 for a block it lacks": (3, "Unknown block", None),
    "code 3 for a missing trie node": (3, "missing trie node 0xdeadbeef (path ) <nil>", None),
    "code 3 alone": (3, "", None),
    "code 3 and empty data": (3, "failed", "0x"),
    "bare failure": (-32000, "call failed", None),
    "missing revert data": (-32000, "missing revert data in call exception", None),
    "out of gas": (-32000, "out of gas", None),
    "nonce too low": (-32000, "nonce too low: next nonce 5, tx nonce 4", None),
    "the word later in the message": (-32000, "header not found; was: execution reverted", None),
    "data that are no revert": (-32603, "Internal error", "0xdeadbeef"),
    "data that are no hex": (-32603, "Internal error", "try again"),
    "data of other types": (-32603, "Internal error", ["revert"]),
    "hash of a transaction in the data": (-32603, "Internal error", {"data": {"data": "0x" + USER_ERROR.hex()}}),
}


@pytest.mark.parametrize("name", REVERTS)
def test_reverts_are_recognised_with_their_data(name: str) -> None:
    """Goal: every client's revert is one, with its data (RPC-4). Method: the wording of each client."""
    code, message, data, expected = REVERTS[name]
    assert revert_in(code, message, data) == Revert(expected)


@pytest.mark.parametrize("name", NO_REVERTS)
def test_other_errors_are_no_reverts(name: str) -> None:
    """Goal: only proof counts (eRPC PR#999, hyperlane PR#7550). Method: errors that were mistaken for reverts."""
    assert revert_in(*NO_REVERTS[name]) is None


def test_reasons_are_decoded() -> None:
    """Goal: people read why. Method: Error(string), known and unknown Panic, a custom error, nothing."""
    assert revert_reason(USER_ERROR) == "user error"
    assert revert_reason(error_string(b"")) == ""
    assert revert_reason(PANIC) == "panic 0x11: arithmetic overflow or underflow"
    assert revert_reason(PANIC[:4] + (0x99).to_bytes(32, "big")) == "panic 0x99"
    assert revert_reason(CUSTOM) is None
    assert revert_reason(b"") is None


def test_broken_encodings_have_no_reason() -> None:
    """Goal: a lying length reads nothing beyond the data. Method: lengths and offsets that do not fit."""
    assert revert_reason(error_string(b"abc", length=2**255)) is None
    assert revert_reason(error_string(b"abc", offset=0)) is None
    assert revert_reason(USER_ERROR[:40]) is None
    assert revert_reason(error_string(b"\xff\xfeok")) == "��ok"
    assert len(revert_reason(error_string(b"a" * 100_000)) or "") == 1024


JSON_LIKE = st.recursive(
    st.none() | st.text() | st.integers() | st.sampled_from(["revert", "0x", "Reverted 0xzz", "0x08c379a0"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["data", "error", "return", "x"]), inner)
    ),
)


@given(st.integers(), st.text(), JSON_LIKE)
def test_no_error_raises(code: int, message: str, data: object) -> None:
    """Goal: judging an error cannot itself fail. Method: arbitrary codes, messages and data."""
    revert_in(code, message, data)


@given(st.binary(max_size=300) | st.binary(max_size=300).map(lambda tail: bytes.fromhex("08c379a0") + tail))
def test_no_revert_data_raise(content: bytes) -> None:
    """Goal: decoding cannot fail. Method: arbitrary bytes, also behind a real selector."""
    revert_reason(content)
