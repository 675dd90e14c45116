"""EIP-712 digests, held to the published vectors and to eth-account."""

from __future__ import annotations

import pytest
from eth_account.messages import encode_typed_data
from eth_utils.crypto import keccak
from hypothesis import given
from hypothesis import strategies as st

from tayho.kernel.json_document import Json
from tayho.kernel.typed_data import DEPTH_MAX, Field, TypedDataRefused, digest, encode_type

DOMAIN: dict[str, Json] = {
    "name": "tayho reference protocol",
    "version": "1",
    "chainId": 31337,
    "verifyingContract": "0x" + "11" * 20,
}
MAIL = {
    "Person": [Field("name", "string"), Field("wallet", "address")],
    "Mail": [Field("to", "Person[]"), Field("amount", "int128"), Field("tag", "bytes4"), Field("is_new", "bool")],
}


def _person(name: str, wallet: bytes) -> dict[str, Json]:
    return {"name": name, "wallet": f"0x{wallet.hex()}"}


PEOPLE = st.builds(
    _person,
    st.text(st.characters(exclude_categories=["Cs"])),
    st.binary(min_size=20, max_size=20),
)


@given(
    to=st.lists(PEOPLE, max_size=3),
    amount=st.integers(-(2**127), 2**127 - 1),
    tag=st.binary(min_size=4, max_size=4),
    is_new=st.booleans(),
)
def test_the_digest_is_eth_accounts(to: list[Json], amount: int, tag: bytes, is_new: bool) -> None:
    """Goal: a wallet and we sign the same. Method: any message, against another library's encoder."""
    message: dict[str, Json] = {"to": to, "amount": amount, "tag": f"0x{tag.hex()}", "is_new": is_new}
    types = {name: [{"name": each.name, "type": each.type_name} for each in fields] for name, fields in MAIL.items()}
    signable = encode_typed_data(domain_data=DOMAIN, message_types=types, message_data=message)
    theirs = keccak(b"\x19" + signable.version + signable.header + signable.body)
    assert digest(DOMAIN, "Mail", MAIL, message) == bytes(theirs)


def test_a_type_names_what_it_refers_to_by_name() -> None:
    """Goal: the type hash is that of the standard. Method: the order of EIP-712: the type, then the others sorted."""
    assert encode_type("Mail", MAIL) == (
        "Mail(Person[] to,int128 amount,bytes4 tag,bool is_new)Person(string name,address wallet)"
    )


@pytest.mark.parametrize(
    ("type_name", "value", "where"),
    [
        ("uint8", 256, "range"),
        ("uint8", -1, "range"),
        ("int8", 128, "range"),
        ("uint7", 1, "integer type of 7 bits"),
        ("uint256", 1.5, "integer"),
        ("uint256", True, "integer"),
        ("uint256", "0x", "integer"),
        ("uint256", "٣", "integer"),
        ("bytes4", "0x0102", "bytes"),
        ("bytes33", "0x", "not known"),
        ("bytes", "0x0", "hex"),
        ("bytes", 7, "hex"),
        ("bool", 1, "true or false"),
        ("address", "0x" + "11" * 19, "address"),
        ("address", None, "address"),
        ("string", "\ud800", "Unicode"),
        ("uint8[2]", [1], "2 items"),
        ("uint8[]", "1", "list"),
        ("Nobody", {}, "not known"),
        ("Self", {"a": 1, "b": 2}, "exactly the fields"),
    ],
)
def test_what_does_not_fit_is_refused_by_its_place(type_name: str, value: Json, where: str) -> None:
    """Goal: a stranger's document is refused with a reason, never guessed at. Method: one bad value of each kind."""
    types = {"Root": [Field("it", type_name)], "Self": [Field("a", "uint8")]}
    with pytest.raises(TypedDataRefused, match=where) as refused:
        digest(DOMAIN, "Root", types, {"it": value})
    assert "it" in str(refused.value)


def test_depth_is_bounded() -> None:
    """Goal: a nested document costs no stack. Method: a struct that holds itself, one deeper than allowed."""
    types = {"Node": [Field("next", "Node[]")]}
    message: Json = {"next": []}
    for _ in range(DEPTH_MAX):
        message = {"next": [message]}
    with pytest.raises(TypedDataRefused, match="deep"):
        digest(DOMAIN, "Node", types, message)


def test_a_domain_with_a_field_of_its_own_is_refused() -> None:
    """Goal: nothing is signed that another wallet would show otherwise. Method: an unknown domain field."""
    with pytest.raises(TypedDataRefused, match="colour"):
        digest({**DOMAIN, "colour": "red"}, "Mail", MAIL, {})
