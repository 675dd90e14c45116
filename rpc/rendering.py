"""Our own JSON of a value: one text for one value, in the encodings that we read ourselves (RPC-5).

What leaves a quorum is rendered from the typed value, never copied from a voter's body: a member that we do not know,
a duplicate, a padded number cannot pass through. `rpc.schemas` reads a rendered value back to the same value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, cast

import attrs

from rpc.quantities import as_data, as_quantity
from rpc.values import Header, Log, Receipt, Transaction

# The names that JSON-RPC has for our fields, where they are not ours in camel case.
_RENAMED: Mapping[type[object], Mapping[str, str]] = {
    Header: {"timestamp_seconds": "timestamp", "base_fee_per_gas_wei": "baseFeePerGas"},
    Log: {},
    Receipt: {"sender": "from", "post_state_root": "root", "effective_gas_price_wei": "effectiveGasPrice"},
    Transaction: {
        "sender": "from",
        "value_wei": "value",
        "gas_limit": "gas",
        "gas_price_wei": "gasPrice",
        "max_fee_per_gas_wei": "maxFeePerGas",
        "max_priority_fee_per_gas_wei": "maxPriorityFeePerGas",
    },
}


def rendered(value: object) -> str:
    """Canonical JSON: members in the order of their names, no blanks, ASCII. Raises TypeError for a foreign type."""
    return json.dumps(document_of(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def document_of(value: object) -> object:
    """The value as plain JSON: integers as QUANTITY, bytes as DATA, fractions as text, absent as null."""
    for kind, render in _RENDERERS:
        if isinstance(value, kind):
            return render(value)
    if attrs.has(type(value)):
        return _members(cast("attrs.AttrsInstance", value))
    raise TypeError(f"a {type(value).__name__} has no canonical form")


def _members(value: attrs.AttrsInstance) -> dict[str, object]:
    renamed = _RENAMED.get(type(value), {})
    return {
        renamed.get(name) or _camel(name): document_of(getattr(value, name)) for name in attrs.fields_dict(type(value))
    }


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def _array(items: Any) -> list[object]:
    return [document_of(item) for item in items]


def _same(value: object) -> object:
    return value


_RENDERERS: tuple[tuple[type | tuple[type, ...], Callable[[Any], object]], ...] = (
    ((bool, str, type(None)), _same),  # bool first: it is an int in Python
    (int, as_quantity),
    (bytes, as_data),
    (Decimal, str),
    ((tuple, list), _array),
)
