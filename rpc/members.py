"""One JSON object of an answer, read member by member with the path in every complaint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar, cast

from attrs import frozen

from rpc.quantities import Unreadable, excerpt

T = TypeVar("T")


@frozen
class Members:
    """A JSON object called `what` in error messages. Members nobody asks for are ignored: nodes add their own."""

    what: str
    values: Mapping[str, object]

    @classmethod
    def of(cls, document: object, what: str) -> Members:
        """Raises Unreadable when the document is not an object."""
        if not isinstance(document, dict):
            raise Unreadable(f"{what}: expected an object, found {excerpt(document)}")
        return cls(what, cast("dict[str, object]", document))

    def read(self, name: str, parse: Callable[[object], T]) -> T:
        """The member through `parse`. Raises Unreadable when it is missing or `parse` refuses it."""
        if name not in self.values:
            raise Unreadable(f"{self.what}.{name} is missing")
        try:
            return parse(self.values[name])
        except Unreadable as error:
            raise Unreadable(f"{self.what}.{name}: {error}") from error

    def read_or_none(self, name: str, parse: Callable[[object], T]) -> T | None:
        """As `read`, where null means None; the member itself must be there."""
        return self.read(name, lambda value: None if value is None else parse(value))

    def read_if_there(self, name: str, parse: Callable[[object], T]) -> T | None:
        """As `read_or_none`, where an absent member means None too."""
        return self.read_or_none(name, parse) if name in self.values else None


def array_of(parse: Callable[[object], T]) -> Callable[[object], tuple[T, ...]]:
    """A parser of arrays whose every item is read by `parse`."""

    def parse_array(value: object) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise Unreadable(f"expected an array, found {excerpt(value)}")
        items = cast("list[object]", value)
        return tuple(_item(items, index, parse) for index in range(len(items)))

    return parse_array


def _item(items: Sequence[object], index: int, parse: Callable[[object], T]) -> T:
    try:
        return parse(items[index])
    except Unreadable as error:
        raise Unreadable(f"[{index}] {error}") from error


def boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise Unreadable(f"expected true or false, found {excerpt(value)}")
    return value


def text(value: object) -> str:
    if not isinstance(value, str):
        raise Unreadable(f"expected a string, found {excerpt(value)}")
    return value
