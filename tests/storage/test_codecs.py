"""How values travel: exactly, or not at all."""

from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.codecs import integer_of, json_text, numeric_text
from storage.database import Database
from storage.errors import NotAnInteger

AMOUNTS = [0, 1, -1, 10**18, 2**256 - 1, -(2**256), 10**77, 123_000_000]
DOCUMENTS: list[object] = [
    {},
    [],
    None,
    True,
    "text with 'quotes', \\ and é 💶",
    {"amount": 2**256 - 1, "nested": [{"a": None}, [1, 2.5, False]]},
]


@given(st.integers())
def test_every_integer_survives(value: int) -> None:
    """Goal: money is exact. Method: any integer through both codecs."""
    assert integer_of(numeric_text(value)) == value


@given(st.one_of(st.floats(), st.booleans(), st.decimals(), st.text(), st.none()))
def test_nothing_else_is_taken_for_an_amount(value: object) -> None:
    """Goal: a value that may have been rounded is refused. Method: any value that is no int, bool among them."""
    with pytest.raises(TypeError):
        numeric_text(value)


@given(st.text())
def test_text_is_an_amount_only_in_plain_digits(text: str) -> None:
    """Goal: nothing but an integer comes out of the database as one. Method: any text."""
    plain = text.removeprefix("-")
    if plain and all(letter in "0123456789" for letter in plain):
        assert integer_of(text) == int(text)
    else:
        with pytest.raises(NotAnInteger):
            integer_of(text)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_json_has_no_nan(value: float) -> None:
    """Goal: PostgreSQL's JSON has no NaN, so we send none. Method: Python's would print one."""
    with pytest.raises(ValueError, match="Out of range"):
        json_text({"a": value})


async def test_amounts_travel_exactly(database: Database) -> None:
    """Goal: numeric carries every amount, alone and in arrays. Method: there and back, and arithmetic on the server."""
    async with database.connection() as connection:
        for amount in AMOUNTS:
            assert await connection.fetchval("SELECT $1::numeric", amount) == amount
            assert await connection.fetchval("SELECT $1::numeric(78, 0) + 1", amount) == amount + 1
        assert await connection.fetchval("SELECT $1::numeric[]", AMOUNTS) == AMOUNTS
        rows = await connection.fetch("SELECT u.amount FROM unnest($1::numeric[]) AS u (amount)", AMOUNTS)
        assert [row["amount"] for row in rows] == AMOUNTS


async def test_documents_travel_exactly(database: Database) -> None:
    """Goal: jsonb and json carry Python objects, alone and in arrays. Method: there and back."""
    async with database.connection() as connection:
        for document in DOCUMENTS:
            if document is not None:
                assert await connection.fetchval("SELECT $1::jsonb", document) == document
                assert await connection.fetchval("SELECT $1::json", document) == document
        objects = [{"a": 1}, {"b": [2]}]
        assert await connection.fetchval("SELECT $1::jsonb[]", objects) == objects


async def test_other_types(database: Database) -> None:
    """Goal: moments are aware and in UTC, bytes are bytes, identifiers UUIDs. Method: there and back."""
    moment = datetime(2026, 12, 1, 2, 3, 4, 5, tzinfo=UTC)
    async with database.connection() as connection:
        found = await connection.fetchrow(
            "SELECT $1::timestamptz AS moment, $2::bytea AS bytes, $3::uuid AS id", moment, b"\0\xff", UUID(int=7)
        )
    assert found is not None
    assert (found["moment"], found["bytes"], found["id"]) == (moment, b"\0\xff", UUID(int=7))
    assert found["moment"].utcoffset() == moment.utcoffset()
