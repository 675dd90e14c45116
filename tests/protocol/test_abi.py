"""Calls, results, logs and reverts, against vectors of the ABI specification and against hostile bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tayho.kernel.address import Address
from tayho.protocol import abi
from tayho.protocol.artifacts import load, parse
from tayho.protocol.types import Artifact, RevertReason

COUNTER = load("Counter")
JOB_ID = bytes(range(32))
SENDER = Address(bytes(range(20)))
WORD = 32


def word(value: int) -> bytes:
    return value.to_bytes(WORD, "big")


def contract(*entries: Mapping[str, object]) -> Artifact:
    """An artifact with the given ABI and no code."""
    whole = {"contract": "C", "compiler": "0.8.37", "abi": entries, "bytecode": "0x6001", "deployedBytecode": "0x"}
    return parse(json.dumps(whole))


def parameters(types: Sequence[str], indexed: Sequence[bool] = ()) -> list[dict[str, object]]:
    marks = indexed or [False] * len(types)
    return [
        {"name": f"p{position}", "type": name, "indexed": mark}
        for position, (name, mark) in enumerate(zip(types, marks, strict=True))
    ]


def function(name: str, *types: str, outputs: Sequence[str] = ()) -> dict[str, object]:
    return {"type": "function", "name": name, "inputs": parameters(types), "outputs": parameters(outputs)}


@pytest.mark.parametrize(
    ("name", "selector"),
    [("record", "b5c645bd"), ("recordOnce", "c0a3e2b7"), ("recorded", "d6399790"), ("count", "06661abd")],
)
def test_selectors_are_those_of_the_compiler(name: str, selector: str) -> None:
    """Goal: our Keccak and our signatures are right. Method: the PUSH4 of the compiler's own dispatcher holds them."""
    assert abi.selector(COUNTER, name).hex() == selector
    assert b"\x63" + bytes.fromhex(selector) in COUNTER.deployed_bytecode


def test_the_event_topic_is_the_one_the_compiler_emits() -> None:
    """Goal: logs are found by the right topic. Method: the PUSH32 in the compiled code, and the well-known Transfer."""
    transfer = {"type": "event", "name": "Transfer", "inputs": parameters(["address", "address", "uint256"])}

    assert b"\x7f" + abi.event_topic(COUNTER, "Recorded") in COUNTER.deployed_bytecode
    assert (
        abi.event_topic(contract(transfer), "Transfer").hex()
        == "ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
    )


def test_a_call_of_the_counter_written_by_hand() -> None:
    """Goal: the bytes that get signed. Method: selector and word put together by hand."""
    assert abi.encode_call(COUNTER, "record", [JOB_ID]) == bytes.fromhex("b5c645bd") + JOB_ID
    assert abi.encode_call(COUNTER, "record(bytes32)", [JOB_ID]) == bytes.fromhex("b5c645bd") + JOB_ID
    assert abi.encode_call(COUNTER, "count") == bytes.fromhex("06661abd")


def test_the_examples_of_the_abi_specification() -> None:
    """Goal: dynamic types too. Method: two calls that the Solidity ABI specification works out word by word."""
    artifact = contract(
        function("sam", "bytes", "bool", "uint256[]"), function("f", "uint256", "uint32[]", "bytes10", "bytes")
    )

    sam = abi.encode_call(artifact, "sam", [b"dave", True, [1, 2, 3]])
    f = abi.encode_call(artifact, "f", [0x123, [0x456, 0x789], b"1234567890", b"Hello, world!"])

    sam_words = [word(0x60), word(1), word(0xA0), word(4), b"dave".ljust(WORD, b"\0"), *map(word, (3, 1, 2, 3))]
    f_head = [word(0x123), word(0x80), b"1234567890".ljust(WORD, b"\0"), word(0xE0)]
    f_tail = [word(2), word(0x456), word(0x789), word(13), b"Hello, world!".ljust(WORD, b"\0")]
    assert sam == bytes.fromhex("a5643bf2") + b"".join(sam_words)
    assert f == bytes.fromhex("8be65246") + b"".join(f_head + f_tail)


def test_a_deployment_is_the_bytecode_and_the_constructor_arguments() -> None:
    """Goal: constructors with and without arguments. Method: one of each."""
    built = contract({"type": "constructor", "inputs": parameters(["address"])})

    assert abi.encode_deployment(COUNTER) == COUNTER.bytecode
    assert abi.encode_deployment(built, [SENDER]) == b"\x60\x01" + bytes(12) + SENDER.value
    with pytest.raises(abi.ArgumentsRefused):
        abi.encode_deployment(COUNTER, [1])


@pytest.mark.parametrize(
    "arguments",
    [[], [JOB_ID, JOB_ID], [JOB_ID[:31]], [JOB_ID + b"\0"], [b""], ["0x" + JOB_ID.hex()], [7], [None], "x"],
    ids=repr,
)
def test_arguments_that_do_not_fit_exactly_are_refused(arguments: Sequence[object]) -> None:
    """Goal: no argument is padded, cut or converted into another meaning. Method: near misses of a bytes32."""
    with pytest.raises(abi.ArgumentsRefused, match=r"record\(bytes32\)"):
        abi.encode_call(COUNTER, "record", arguments)


@pytest.mark.parametrize(
    ("type_name", "value"),
    [
        ("address", "0x" + "00" * 20),
        ("address", bytes(20)),
        ("uint8", 256),
        ("uint256", -1),
        ("uint256", True),
        ("uint256", "1"),
        ("int8", 128),
        ("bool", 1),
        ("string", b"x"),
        ("string", "\ud800"),
        ("bytes", "x"),
        ("uint8[2]", [1]),
        ("bytes4[]", [b"abcd", b"abc"]),
    ],
)
def test_values_of_another_type_are_refused(type_name: str, value: object) -> None:
    """Goal: strictness inside every type. Method: one value each that a lenient encoder might have taken."""
    with pytest.raises(abi.ArgumentsRefused):
        abi.encode_call(contract(function("f", type_name)), "f", [value])


def test_an_unknown_member_is_named_with_its_alternatives() -> None:
    """Goal: the message says what there is. Method: a misspelt function, event, and an overload by plain name."""
    overloaded = contract(function("f", "uint8"), function("f", "uint16"))

    with pytest.raises(abi.UnknownMember, match=r"'recrod'.*record\(bytes32\)"):
        abi.encode_call(COUNTER, "recrod", [JOB_ID])
    with pytest.raises(abi.UnknownMember, match="Recorded"):
        abi.event_topic(COUNTER, "Gone")
    with pytest.raises(abi.UnknownMember, match=r"f\(uint16\), f\(uint8\)"):
        abi.selector(overloaded, "f")


RECORDED_TOPICS = [abi.event_topic(COUNTER, "Recorded"), JOB_ID, bytes(12) + SENDER.value]


def test_a_log_of_the_counter_is_decoded_by_name() -> None:
    """Goal: indexed and plain arguments in declared order. Method: a log put together by hand."""
    decoded = abi.decode_event(COUNTER, "Recorded", RECORDED_TOPICS, word(7))

    assert list(decoded.items()) == [("jobId", JOB_ID), ("sender", SENDER), ("count", 7)]


@pytest.mark.parametrize(
    ("topics", "data"),
    [
        ([], word(7)),
        ([bytes(32), *RECORDED_TOPICS[1:]], word(7)),
        (RECORDED_TOPICS[:2], word(7)),
        ([*RECORDED_TOPICS, bytes(32)], word(7)),
        ([*RECORDED_TOPICS[:2], b"\1" + RECORDED_TOPICS[2][1:]], word(7)),
        ([*RECORDED_TOPICS[:2], b""], word(7)),
        (RECORDED_TOPICS, b""),
        (RECORDED_TOPICS, word(7)[:-1]),
    ],
    ids=[
        "anonymous",
        "another event",
        "topic missing",
        "topic too many",
        "address with dirty padding",
        "empty topic",
        "no data",
        "data too short",
    ],
)
def test_a_log_that_is_not_the_event_is_refused(topics: list[bytes], data: bytes) -> None:
    """Goal: another contract's log never counts as evidence. Method: near misses of a good log."""
    with pytest.raises(abi.LogRefused):
        abi.decode_event(COUNTER, "Recorded", topics, data)


def test_an_indexed_dynamic_argument_comes_back_as_its_hash() -> None:
    """Goal: nobody mistakes the hash for the value. Method: a log whose string argument is indexed."""
    event = {"type": "event", "name": "E", "inputs": parameters(["string", "uint8", "uint8[2]"], [True, False, True])}
    artifact = contract(event)

    decoded = abi.decode_event(
        artifact, "E", [abi.event_topic(artifact, "E"), JOB_ID, SENDER.value.rjust(WORD)], word(3)
    )

    assert decoded == {"p0": JOB_ID, "p1": 3, "p2": SENDER.value.rjust(WORD)}


def test_what_a_call_returned() -> None:
    """Goal: results, and the empty answer of an account without code. Method: decode both."""
    assert abi.decode_result(COUNTER, "count", word(41)) == (41,)
    assert abi.decode_result(COUNTER, "recorded", word(1)) == (True,)
    with pytest.raises(abi.ResultRefused, match=r"Counter\.count\(\)"):
        abi.decode_result(COUNTER, "count", b"")
    with pytest.raises(abi.ResultRefused):
        abi.decode_result(COUNTER, "recorded", word(2))


@pytest.mark.parametrize(
    ("type_name", "data", "complaint"),
    [
        ("string", word(0x20) + word(1) + b"\xff".ljust(WORD, b"\0"), "utf-8"),
        ("bytes", word(0x20) + word(2**255), "int"),
        ("bytes", word(2**255), "pointer"),
        ("bytes", word(0x20) + word(WORD), "Tried to read 32 bytes"),
        ("uint8[]", word(0x20) + word(2**255) + word(1), "Tried to read 32 bytes"),
        ("uint8", word(256), "Padding"),
        ("address", bytes(31), "an address takes 32 bytes; found 31"),
    ],
)
def test_a_result_that_lies_about_itself_is_refused(type_name: str, data: bytes, complaint: str) -> None:
    """Goal: no length or pointer in an answer is believed. Method: one lie each, as a contract could return it."""
    with pytest.raises(abi.ResultRefused, match=rf"C\.f\(\).*{complaint}"):
        abi.decode_result(contract(function("f", outputs=[type_name])), "f", data)


ALREADY_RECORDED = bytes.fromhex("05a64c20")


def test_a_revert_is_told_in_words() -> None:
    """Goal: an operator reads why. Method: the contract's own error, written by hand."""
    reason = abi.decode_error(COUNTER, ALREADY_RECORDED + JOB_ID)

    assert reason == RevertReason("AlreadyRecorded", {"jobId": JOB_ID})
    assert str(reason) == f"AlreadyRecorded(jobId=0x{JOB_ID.hex()})"


@pytest.mark.parametrize("data", [b"", ALREADY_RECORDED[:3], JOB_ID, ALREADY_RECORDED, ALREADY_RECORDED + JOB_ID[1:]])
def test_unreadable_revert_data_is_an_ordinary_case(data: bytes) -> None:
    """Goal: a contract cannot crash its caller by what it reverts with. Method: empty, unknown and truncated data."""
    assert abi.decode_error(COUNTER, data) is None


def test_a_call_is_read_back_only_by_its_own_function() -> None:
    """Goal: no call is mistaken for another. Method: decode record's data as record and as recordOnce."""
    data = abi.encode_call(COUNTER, "record", [JOB_ID])

    assert abi.decode_call(COUNTER, "record", data) == (JOB_ID,)
    with pytest.raises(abi.ArgumentsRefused, match="b5c645bd"):
        abi.decode_call(COUNTER, "recordOnce", data)
    with pytest.raises(abi.ArgumentsRefused):
        abi.decode_call(COUNTER, "record", data[:-1])


Typed = tuple[str, st.SearchStrategy[object]]


def _elementary() -> st.SearchStrategy[Typed]:
    def unsigned(size_bytes: int) -> Typed:
        return f"uint{8 * size_bytes}", st.integers(0, 2 ** (8 * size_bytes) - 1)

    def signed(size_bytes: int) -> Typed:
        return f"int{8 * size_bytes}", st.integers(-(2 ** (8 * size_bytes - 1)), 2 ** (8 * size_bytes - 1) - 1)

    def fixed_bytes(size_bytes: int) -> Typed:
        return f"bytes{size_bytes}", st.binary(min_size=size_bytes, max_size=size_bytes)

    sizes = st.integers(1, WORD)
    plain: list[Typed] = [
        ("bool", st.booleans()),
        ("address", st.binary(min_size=20, max_size=20).map(Address)),
        ("bytes", st.binary(max_size=80)),
        ("string", st.text(max_size=40)),
    ]
    return st.one_of(sizes.map(unsigned), sizes.map(signed), sizes.map(fixed_bytes), st.sampled_from(plain))


def _composed(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    def as_list(item: Typed) -> Typed:
        return f"{item[0]}[]", st.lists(item[1], max_size=3).map(tuple)

    def as_fixed_list(item: Typed) -> Typed:
        return f"{item[0]}[2]", st.tuples(item[1], item[1])

    def as_tuple(items: tuple[Typed, Typed]) -> Typed:
        return f"({items[0][0]},{items[1][0]})", st.tuples(items[0][1], items[1][1])

    return st.one_of(inner.map(as_list), inner.map(as_fixed_list), st.tuples(inner, inner).map(as_tuple))


TYPED = st.recursive(_elementary(), _composed, max_leaves=3)
SIGNATURES = st.lists(TYPED, max_size=4)


@given(st.data())
def test_what_is_encoded_decodes_to_itself(data: st.DataObject) -> None:
    """Goal: no value changes on its way. Method: random signatures and values, as a call, a result and an error."""
    typed = data.draw(SIGNATURES)
    types = [name for name, _ in typed]
    values = tuple(data.draw(strategy) for _, strategy in typed)
    error = {"type": "error", "name": "E", "inputs": parameters(types)}
    artifact = contract(function("f", *types, outputs=types), error)

    call = abi.encode_call(artifact, "f", values)
    reason = abi.decode_error(artifact, artifact.errors["E"].selector + call[4:])

    assert len(call) % WORD == 4
    assert abi.decode_call(artifact, "f", call) == values
    assert abi.decode_result(artifact, "f", call[4:]) == values
    assert reason is not None
    assert tuple(reason.values.values()) == values


@given(st.data())
def test_an_event_decodes_to_what_was_emitted(data: st.DataObject) -> None:
    """Goal: any split between topics and data. Method: random events; indexed words are made by a one-argument call."""
    typed = data.draw(st.lists(_elementary().filter(lambda item: item[0] not in ("bytes", "string")), max_size=6))
    types = [name for name, _ in typed]
    values = [data.draw(strategy) for _, strategy in typed]
    indexed = [data.draw(st.booleans()) and position < 3 for position in range(len(types))]
    event = {"type": "event", "name": "E", "inputs": parameters(types, indexed)}
    words = [
        abi.encode_call(contract(function("f", name)), "f", [value])[4:]
        for name, value in zip(types, values, strict=True)
    ]
    artifact = contract(event)
    topics = [encoded for encoded, mark in zip(words, indexed, strict=True) if mark]
    plain = b"".join(encoded for encoded, mark in zip(words, indexed, strict=True) if not mark)

    decoded = abi.decode_event(artifact, "E", [abi.event_topic(artifact, "E"), *topics], plain)

    assert list(decoded.values()) == values


@given(typed=SIGNATURES, junk=st.binary(max_size=200) | st.lists(st.integers(0, 160).map(word)).map(b"".join))
def test_no_bytes_crash_the_decoders(typed: list[Typed], junk: bytes) -> None:
    """Goal: whatever a contract returns, logs or reverts with ends in a value or in our own refusal. Method: junk."""
    types = [name for name, _ in typed]
    inputs = parameters(types)
    artifact = contract(
        function("f", *types, outputs=types),
        {"type": "event", "name": "E", "inputs": inputs},
        {"type": "error", "name": "X", "inputs": inputs},
    )

    def attempt(decode: Callable[..., object], *arguments: object) -> None:
        try:
            decode(artifact, *arguments)
        except (abi.ArgumentsRefused, abi.LogRefused, abi.ResultRefused):
            return

    attempt(abi.decode_call, "f", artifact.functions["f"].selector + junk)
    attempt(abi.decode_result, "f", junk)
    attempt(abi.decode_event, "E", [abi.event_topic(artifact, "E")], junk)
    attempt(abi.decode_error, artifact.errors["X"].selector + junk)
