"""Values as JSON holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import cast
from uuid import UUID

import attrs

from tayho.kernel.address import Address


def plain(value: object) -> object:
    """A value, or a value of values, as what `json.dumps` takes."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, (UUID, Address)):
        return str(value)
    return _plain_parts(value)


def _plain_parts(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in cast("Sequence[object]", value)]
    if attrs.has(type(value)):
        return {name: plain(getattr(value, name)) for name in attrs.fields_dict(type(value))}
    return value
