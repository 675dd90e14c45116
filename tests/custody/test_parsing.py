"""Texts of keys: every fault is told, no secret with it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tayho.custody.errors import KeysRefused
from tayho.custody.module import parse_journal_keys, parse_signer_keys
from tayho.custody.types import KeyFault
from tests.custody.examples import (
    JOURNAL_HEX,
    KEY_HEX,
    OLD_JOURNAL_HEX,
    OTHER_KEY_HEX,
    OTHER_SIGNER,
    SIGNER,
    rendered,
    shows,
)

ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
KEY, OTHER_KEY = f"0x{KEY_HEX}", f"0x{OTHER_KEY_HEX}"
JOURNAL, OLD_JOURNAL = f"0x{JOURNAL_HEX}", f"0x{OLD_JOURNAL_HEX}"
SECRETS = [bytes.fromhex(digits) for digits in (KEY_HEX, OTHER_KEY_HEX, JOURNAL_HEX, OLD_JOURNAL_HEX)]


def refused_signers(text: str) -> KeysRefused:
    with pytest.raises(KeysRefused) as caught:
        parse_signer_keys(text)
    return caught.value


def refused_journal(text: str, active_id: str = "a") -> KeysRefused:
    with pytest.raises(KeysRefused) as caught:
        parse_journal_keys(text, active_id)
    return caught.value


def faults(error: KeysRefused) -> list[KeyFault]:
    return [problem.fault for problem in error.problems]


def test_a_list_of_keys_is_read_in_its_order() -> None:
    """Goal: the pool is what was configured. Method: two keys, both orders; upper-case digits are digits too."""
    assert parse_signer_keys(json.dumps([KEY, OTHER_KEY])).addresses == (SIGNER, OTHER_SIGNER)
    assert parse_signer_keys(json.dumps([OTHER_KEY, f"0x{KEY_HEX.upper()}"])).addresses == (OTHER_SIGNER, SIGNER)


def test_an_object_states_the_address_of_each_key() -> None:
    """Goal: an operator can say which key he means. Method: checksummed and lower-case addresses."""
    text = json.dumps({SIGNER.checksummed: KEY, OTHER_SIGNER.checksummed.lower(): OTHER_KEY})
    assert parse_signer_keys(text).addresses == (SIGNER, OTHER_SIGNER)


def test_journal_keys_are_read_by_id() -> None:
    """Goal: every row's key id finds its key. Method: two ids, the bytes of each as given."""
    ring = parse_journal_keys(json.dumps({"2026-01": OLD_JOURNAL, "2026-02": JOURNAL}), "2026-01")
    assert ring.active_id == "2026-01"
    assert list(ring.keys) == ["2026-01", "2026-02"]
    with ring.keys["2026-02"].revealed() as octets:
        assert octets.hex() == JOURNAL_HEX


BAD_KEYS: list[tuple[KeyFault, object]] = [
    (KeyFault.NOT_TEXT, 5),
    (KeyFault.NOT_TEXT, 5.5),
    (KeyFault.NOT_TEXT, None),
    (KeyFault.NOT_TEXT, True),
    (KeyFault.NOT_TEXT, [KEY]),
    (KeyFault.NOT_TEXT, {"key": KEY}),
    (KeyFault.NOT_HEX, ""),
    (KeyFault.NOT_HEX, KEY_HEX),
    (KeyFault.NOT_HEX, f"0X{KEY_HEX}"),
    (KeyFault.NOT_HEX, f" {KEY}"),
    (KeyFault.NOT_HEX, f"{KEY}\n"),
    (KeyFault.NOT_HEX, f"0x{KEY_HEX[:-1]}g"),
    (KeyFault.NOT_HEX, f"0x{KEY_HEX[:32]} {KEY_HEX[32:]}"),
    (KeyFault.WRONG_LENGTH, "0x"),
    (KeyFault.WRONG_LENGTH, KEY[:-1]),
    (KeyFault.WRONG_LENGTH, KEY[:-2]),
    (KeyFault.WRONG_LENGTH, f"{KEY}00"),
    (KeyFault.OUT_OF_RANGE, "0x" + "00" * 32),
]


@pytest.mark.parametrize(("fault", "value"), BAD_KEYS)
def test_each_malformed_key_is_named_and_not_shown(fault: KeyFault, value: object) -> None:
    """Goal: the operator learns which entry and why, the log learns no key. Method: one defect each, both variables."""
    for error in (
        refused_signers(json.dumps([OTHER_KEY, value])),
        refused_signers(json.dumps([value, OTHER_KEY])),
        refused_journal(json.dumps({"b": JOURNAL, "a": value})),
    ):
        assert faults(error) == [fault]
        assert error.problems[0].entry in ("entry 1", "entry 2")
        assert error.__context__ is None
        assert not any(shows(rendered(error), octets) for octets in SECRETS)


@pytest.mark.parametrize("number", [ORDER, ORDER + 1, 2**256 - 1])
def test_a_signer_key_is_below_the_group_order(number: int) -> None:
    """Goal: a number that is no key is refused at the start. Method: the order and beyond; one below is accepted."""
    assert faults(refused_signers(json.dumps([f"0x{number:064x}"]))) == [KeyFault.OUT_OF_RANGE]
    assert len(parse_signer_keys(json.dumps([f"0x{ORDER - 1:064x}"])).addresses) == 1


TEXTS: list[tuple[KeyFault, str]] = [
    (KeyFault.NOT_JSON, ""),
    (KeyFault.NOT_JSON, KEY),
    (KeyFault.NOT_JSON, f'["{KEY}"'),
    (KeyFault.NOT_JSON, f"['{KEY}']"),
    (KeyFault.NOT_JSON, f'["{KEY}"] "{OTHER_KEY}"'),
    (KeyFault.NOT_JSON, "[" + "1" * 5000 + "]"),
    (KeyFault.WRONG_SHAPE, f'"{KEY}"'),
    (KeyFault.WRONG_SHAPE, "null"),
    (KeyFault.WRONG_SHAPE, "1"),
    (KeyFault.WRONG_SHAPE, "true"),
    (KeyFault.EMPTY, "{}"),
]


@pytest.mark.parametrize(("fault", "text"), TEXTS)
def test_a_text_that_hides_its_keys_is_refused_whole(fault: KeyFault, text: str) -> None:
    """Goal: a broken text is refused with its place, and never quoted. Method: both variables, locals rendered.

    The JSON decoder's own error carries the whole text; it must not stay attached.
    """
    for error in (refused_signers(text), refused_journal(text)):
        assert faults(error)[0] is fault
        assert error.__context__ is None
        assert not any(shows(rendered(error), octets) for octets in SECRETS)


def test_a_list_has_no_ids_for_journal_keys() -> None:
    """Goal: every journal key has an id. Method: a list."""
    assert faults(refused_journal(json.dumps([JOURNAL])))[0] is KeyFault.WRONG_SHAPE
    assert faults(refused_signers("[]")) == [KeyFault.EMPTY]


def test_a_key_under_a_foreign_address_is_refused() -> None:
    """Goal: the stated address is the derived one. Method: two exchanged keys; both addresses are told, no key."""
    error = refused_signers(json.dumps({SIGNER.checksummed: OTHER_KEY, OTHER_SIGNER.checksummed: KEY}))
    assert faults(error) == [KeyFault.ADDRESS_DIFFERS, KeyFault.ADDRESS_DIFFERS]
    assert SIGNER.checksummed in str(error)
    assert not any(shows(rendered(error), octets) for octets in SECRETS)


@pytest.mark.parametrize(
    "name", ["", "hot", SIGNER.checksummed[:-1], SIGNER.checksummed.swapcase(), SIGNER.checksummed[2:], KEY]
)
def test_a_name_that_is_no_address_is_refused(name: str) -> None:
    """Goal: typing errors and swapped sides are found and not printed. Method: no address, a wrong checksum, a key."""
    error = refused_signers(json.dumps({name: KEY}))
    assert faults(error) == [KeyFault.ADDRESS_MALFORMED]
    assert not any(shows(rendered(error), octets) for octets in SECRETS)


def test_swapped_sides_are_refused_and_not_printed() -> None:
    """Goal: `{key: address}` is a mistake people make. Method: it, in both variables and the active id."""
    for error in (
        refused_signers(json.dumps({KEY: SIGNER.checksummed})),
        refused_journal(json.dumps({JOURNAL: "a"}), JOURNAL),
        refused_journal(json.dumps({JOURNAL_HEX: "a", "b": OLD_JOURNAL}), JOURNAL_HEX),
    ):
        assert not any(shows(rendered(error), octets) for octets in SECRETS)


def test_a_signer_key_stands_once() -> None:
    """Goal: one account, one lane. Method: a key twice in a list, in other case, and an address twice in an object."""
    again = f"0x{KEY_HEX.upper()}"
    assert faults(refused_signers(json.dumps([KEY, OTHER_KEY, again]))) == [KeyFault.KEY_TWICE]
    twice = f'{{"{SIGNER.checksummed}": "{KEY}", "{SIGNER.checksummed}": "{KEY}"}}'
    assert faults(refused_signers(twice)) == [KeyFault.KEY_TWICE]


def test_a_journal_id_and_a_journal_key_stand_once() -> None:
    """Goal: no id hides another, no key pretends to be two. Method: a repeated JSON name; one key under two ids."""
    twice = f'{{"a": "{JOURNAL}", "a": "{OLD_JOURNAL}"}}'
    assert faults(refused_journal(twice)) == [KeyFault.KEY_ID_TWICE]
    shared = {"a": JOURNAL, "b": f"0x{JOURNAL_HEX.upper()}"}
    assert faults(refused_journal(json.dumps(shared))) == [KeyFault.KEY_TWICE]


@pytest.mark.parametrize("key_id", ["", " a", "a b", "-a", "é", "a" * 33, "a\n", "a/b"])
def test_a_journal_id_is_short_and_plain(key_id: str) -> None:
    """Goal: ids live in rows, logs and shells. Method: empty, spaced, long, non-ASCII."""
    assert faults(refused_journal(json.dumps({key_id: JOURNAL, "a": OLD_JOURNAL}))) == [KeyFault.KEY_ID_MALFORMED]


def test_the_active_id_has_a_key() -> None:
    """Goal: a process that could not seal does not start. Method: another id, an empty one; a bad key is told once."""
    text = json.dumps({"a": JOURNAL})
    assert faults(refused_journal(text, "b")) == [KeyFault.ACTIVE_ID_MISSING]
    assert faults(refused_journal(text, "")) == [KeyFault.ACTIVE_ID_MISSING]
    assert faults(refused_journal(json.dumps({"a": "0x"}), "a")) == [KeyFault.WRONG_LENGTH]


def test_everything_wrong_is_told_at_once() -> None:
    """Goal: one start, all errors. Method: four defects in one text."""
    error = refused_journal(json.dumps({"a": "0x1", "b": 2, "c d": JOURNAL}), "x")
    assert faults(error) == [
        KeyFault.WRONG_LENGTH,
        KeyFault.NOT_TEXT,
        KeyFault.KEY_ID_MALFORMED,
        KeyFault.ACTIVE_ID_MISSING,
    ]
    assert [problem.entry for problem in error.problems] == ["entry 1", "entry 2", "entry 3", "the active key id"]


@settings(deadline=None)
@given(st.text(max_size=200))
def test_no_text_at_all_breaks_the_parser(text: str) -> None:
    """Goal: any text gives keys or KeysRefused. Method: random text, alone and inside a list and an object."""
    for whole in (text, json.dumps([text]), json.dumps({text: text})):
        for parse in (parse_signer_keys, lambda given_text: parse_journal_keys(given_text, "a")):
            try:
                parse(whole)
            except KeysRefused as error:
                assert error.problems


def test_rings_show_no_key() -> None:
    """Goal: printing a configuration is harmless. Method: repr of both rings."""
    shown = repr(parse_signer_keys(json.dumps([KEY]))) + repr(parse_journal_keys(json.dumps({"a": JOURNAL}), "a"))
    assert not any(shows(shown, octets) for octets in SECRETS)
