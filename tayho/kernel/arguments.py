"""What the fields of a new job may hold, so that bad input is refused where the caller still has it (DLV-10).

`tayho.enqueue` in SQL refuses the same (`sql/migrations/0006_enqueue.sql`); a test holds the two doors equal.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias, cast

from attrs import Attribute

from tayho.kernel.json_document import DocumentRefused

# Nothing waits for another century: such a time is a mistake in its unit. No clock is asked.
RUN_AT_END = datetime(2100, 1, 1, tzinfo=UTC)

Validator: TypeAlias = "Callable[[object, Attribute[Any], object], None]"


class ArgumentRefused(ValueError):
    """A field of a new job is out of its range. Nothing was recorded; the message names the field."""

    def __init__(self, field: str, fault: str) -> None:
        super().__init__(f"{field} {fault}")
        self.field = field


def refuse_unless_name(field: str, value: object, characters_max: int) -> None:
    """Refuse what is no text of 1 to `characters_max` characters without control characters."""
    if not isinstance(value, str):
        raise ArgumentRefused(field, f"is a {type(value).__name__}: give text")
    if not 1 <= len(value) <= characters_max:
        raise ArgumentRefused(field, f"has {len(value)} characters: give 1 to {characters_max}")
    # Of the surrogates only lone ones are left in a Python text; PostgreSQL holds neither them nor NUL.
    if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in value):
        raise ArgumentRefused(field, f"{value!a} holds a control character or a lone surrogate: give plain text")


def is_name(characters_max: int) -> Validator:
    """Text that people and indexes can carry; see `refuse_unless_name`."""

    def check(_job: object, attribute: Attribute[Any], value: object) -> None:
        refuse_unless_name(attribute.name, value, characters_max)

    return check


def is_one_of(names: Collection[str]) -> Validator:
    """One of the names."""

    def check(_job: object, attribute: Attribute[Any], value: object) -> None:
        if not isinstance(value, str) or value not in names:
            raise ArgumentRefused(attribute.name, f"{value!a} is unknown: give one of {', '.join(names)}")

    return check


def is_whole(least: int, most: int) -> Validator:
    """A whole number; True is none, though Python counts it among them."""

    def check(_job: object, attribute: Attribute[Any], value: object) -> None:
        if type(value) is not int or not least <= value <= most:
            raise ArgumentRefused(attribute.name, f"{value!r} is out of range: give an integer {least} to {most}")

    return check


def is_run_at(_job: object, attribute: Attribute[Any], value: object) -> None:
    """None, or a time with its zone before RUN_AT_END. One that is past means now."""
    if value is None:
        return
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise ArgumentRefused(attribute.name, f"{value!r} is no time with a time zone: give one, or None for now")
    try:
        is_late = value.astimezone(UTC) >= RUN_AT_END
    except OverflowError as error:
        raise ArgumentRefused(attribute.name, f"{value} does not exist in UTC: give a later time") from error
    if is_late:
        raise ArgumentRefused(attribute.name, f"{value} is after the year 2099: give an earlier time")


def is_tags(count_max: int, characters_max: int) -> Validator:
    """A tuple or list of so many names."""

    def check(_job: object, attribute: Attribute[Any], value: object) -> None:
        # A text is a sequence of texts as well, and never meant.
        if not isinstance(value, (tuple, list)):
            raise ArgumentRefused(attribute.name, f"is a {type(value).__name__}: give a tuple of texts")
        tags = cast("tuple[object, ...] | list[object]", value)
        if len(tags) > count_max:
            raise ArgumentRefused(attribute.name, f"holds {len(tags)} texts: give at most {count_max}")
        for tag in tags:
            refuse_unless_name("a tag", tag, characters_max)

    return check


def is_object(_job: object, _attribute: Attribute[Any], value: object) -> None:
    """A JSON object at the top; what it holds is checked when it is written."""
    if not isinstance(value, Mapping):
        raise DocumentRefused(f"the request is a {type(value).__name__}: give an object, such as {{'invoice': 7}}")
