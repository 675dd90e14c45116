"""Rows as values."""

from typing import TYPE_CHECKING, Any, TypeVar, cast

import attrs

if TYPE_CHECKING:
    # A producer in a plain asyncio program reads rows without what opens connections.
    from storage.connection import Row

T = TypeVar("T")


def value_from(kind: type[T], row: "Row", **others: object) -> T:
    """An attrs value whose fields are the columns of the same names; `others` are fields that the row has not.

    Raises KeyError where a field has neither: the query and the value have drifted apart.
    """
    names = [one.name for one in cast("tuple[attrs.Attribute[Any], ...]", attrs.fields(cast("Any", kind)))]
    return kind(**{name: others[name] if name in others else row[name] for name in names})
