"""One JSON object of an answer, read member by member with the path in every complaint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
        return self._parsed(name, self._value(name), parse)

    def read_or_none(self, name: str, parse: Callable[[object], T]) -> T | None:
        """As `read`, where null means None; the member itself must be there."""
        value = self._value(name)
        return None if value is None else self._parsed(name, value, parse)

    def read_if_there(self, name: str, parse: Callable[[object], T]) -> T | None:
        """As `read_or_none`, where an absent member means None too."""
        value = self.values.get(name)
        return None if value is None else self._parsed(name, value, parse)

    def _value(self, name: str) -> object:
        try:
            return self.values[name]
        except KeyError:
            raise Unreadable(f"{self.what}.{name} is missing") from None

    def _parsed(self, name: str, value: object, parse: Callable[[object], T]) -> T:
        try:
            return parse(value)
        except Unreadable as error:
            raise Unreadable(f"{self.what}.{name}: {error}") from error


def array_of(parse: Callable[[object], T]) -> Callable[[object], tuple[T, ...]]:
    """A parser of arrays whose every item is read by `parse`."""

    def parse_array(value: object) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise Unreadable(f"expected an array, found {excerpt(value)}")
        items: list[T] = []
        try:
            for item in cast("list[object]", value):
                items.append(parse(item))  # noqa: PERF401 - their number tells where it stopped
        except Unreadable as error:
            raise Unreadable(f"[{len(items)}] {error}") from error
        return tuple(items)

    return parse_array


def boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise Unreadable(f"expected true or false, found {excerpt(value)}")
    return value


def text(value: object) -> str:
    if not isinstance(value, str):
        raise Unreadable(f"expected a string, found {excerpt(value)}")
    return value
