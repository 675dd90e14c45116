"""How jsonb and numeric travel: JSON as Python objects, numeric as int and never as a fraction."""

import json
import re
from typing import Any, Final

from storage.driver import RawConnection
from storage.errors import NotAnInteger

# PostgreSQL prints an integral numeric in plain digits, whatever its size.
_INTEGER: Final = re.compile(r"-?\d+")


def json_text(value: Any) -> str:
    """Compact JSON. NaN and infinities, which PostgreSQL does not take, raise ValueError."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def numeric_text(value: Any) -> str:
    """Digits for a numeric column. Only int is taken: a float or Decimal amount has been rounded somewhere."""
    if type(value) is not int:
        raise TypeError(f"a numeric argument must be int, not {type(value).__name__}")
    return str(value)


def integer_of(text: str) -> int:
    """The int of a numeric column or expression.

    Raises:
        NotAnInteger: it is a fraction, NaN or infinite.
    """
    if _INTEGER.fullmatch(text) is None:
        raise NotAnInteger("a numeric is no integer: cast it in the SQL to the type that is meant.")
    return int(text)


async def set_codecs(connection: RawConnection) -> None:
    """Prepare a new connection; asyncpg looks none of these three types up on the server."""
    for name in ("jsonb", "json"):
        await connection.set_type_codec(name, schema="pg_catalog", encoder=json_text, decoder=json.loads)
    await connection.set_type_codec("numeric", schema="pg_catalog", encoder=numeric_text, decoder=integer_of)
