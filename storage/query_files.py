"""Reads sql/<context>/<noun>.sql: every statement the product runs, named in aiosql's convention.

`-- name: claim_due` begins a statement; a suffix says what it gives: none for rows, `^` for one row or none, `$` for
one value, `!` for the number of rows it changed. Its reference is `<context>/<noun>.<name>`.
"""

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import MappingProxyType
from typing import Final

from attrs import field, frozen


class Kind(Enum):
    """What a statement gives, by the suffix of its name."""

    MANY = ""
    ONE = "^"
    SCALAR = "$"
    COMMAND = "!"


@frozen
class Query:
    ref: str
    sql: str = field(repr=False)
    kind: Kind
    path: str
    # Of the name line, counted from 1.
    line: int
    # Invariant: the statement uses $1 to $n, each at least once.
    parameters: int


class QueryFileInvalid(Exception):
    """A query file that cannot be read, or a reference to a query that is not there. Names the file and the line."""


_NAME_LINE: Final = re.compile(r"--\s*name:\s*(?P<name>\S+)\s*")
_NAME: Final = re.compile(r"(?P<name>[a-z][a-z0-9_]*)(?P<suffix>[\^$!]?)")
# What may hold a `$1` or a `--` that is none: strings, quoted identifiers, dollar-quoted bodies, block comments.
_OPAQUE: Final = re.compile(
    r"""'(?:[^']|'')*'|"[^"]*"|\$(?P<tag>[A-Za-z_]*)\$.*?\$(?P=tag)\$|/\*.*?\*/|--[^\n]*""", re.DOTALL
)
_PARAMETER: Final = re.compile(r"\$(\d+)")


@cache
def all_queries() -> Mapping[str, Query]:
    """Every query of the installed `sql` package, by reference."""
    return MappingProxyType(read_queries(files("sql")))


def query(ref: str) -> Query:
    """The query of a reference.

    Raises:
        QueryFileInvalid: there is none.
    """
    found = all_queries().get(ref)
    if found is None:
        raise QueryFileInvalid(f"sql/ has no query {ref!r}: a reference is <context>/<noun>.<name>.")
    return found


def read_queries(root: Traversable) -> dict[str, Query]:
    """All queries under `root`, checked. `migrations/` and `schema.sql` hold none.

    Raises:
        QueryFileInvalid: a doubled name, an empty statement, an unknown suffix, a gap in the parameters, text before
            the first name, a file outside a context's folder.
    """
    found: dict[str, Query] = {}
    for context, noun, text in _query_files(root):
        for query in parse(text, context=context, noun=noun):
            earlier = found.get(query.ref)
            if earlier is not None:
                raise QueryFileInvalid(f"{query.path}:{query.line}: {query.ref} is there already: line {earlier.line}.")
            found[query.ref] = query
    return found


def parse(text: str, *, context: str, noun: str) -> Iterator[Query]:
    """The queries of one file."""
    path = f"sql/{context}/{noun}.sql"
    heads = [(i, match["name"]) for i, line in enumerate(text.split("\n")) if (match := _NAME_LINE.fullmatch(line))]
    lines = text.split("\n")
    before = "\n".join(lines[: heads[0][0] if heads else None])
    if _without_opaque(before).strip():
        raise QueryFileInvalid(f"{path}: a statement has no `-- name:` line above it.")
    for (start, name), (end, _) in zip(heads, [*heads[1:], (len(lines), "")], strict=True):
        yield _query(f"{context}/{noun}", name, "\n".join(lines[start + 1 : end]), path, start + 1)


def _query(prefix: str, name: str, body: str, path: str, line: int) -> Query:
    match = _NAME.fullmatch(name)
    if match is None:
        raise QueryFileInvalid(f"{path}:{line}: {name!r} is no query name: lower case, then nothing, ^, $ or !.")
    bare = _without_opaque(body)
    if not bare.strip(" \n\t;"):
        raise QueryFileInvalid(f"{path}:{line}: {name} has no statement.")
    numbers = {int(number) for number in _PARAMETER.findall(bare)}
    if numbers != set(range(1, len(numbers) + 1)):
        used = ", ".join(f"${number}" for number in sorted(numbers))
        raise QueryFileInvalid(f"{path}:{line}: {name} uses {used}: parameters count from $1 without a gap.")
    return Query(f"{prefix}.{match['name']}", body.strip(), Kind(match["suffix"]), path, line, len(numbers))


def _query_files(root: Traversable) -> Iterator[tuple[str, str, str]]:
    for entry in sorted(root.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir() and entry.name not in {"migrations", "__pycache__"}:
            for file in sorted(entry.iterdir(), key=lambda file: file.name):
                if file.name.endswith(".sql"):
                    yield entry.name, file.name.removesuffix(".sql"), file.read_text(encoding="utf-8")
        elif entry.name.endswith(".sql") and entry.name != "schema.sql":
            raise QueryFileInvalid(f"sql/{entry.name}: a query file belongs into the folder of its context.")


def _without_opaque(sql: str) -> str:
    return _OPAQUE.sub(lambda match: "''" if match[0].startswith(("'", "$")) else " ", sql)
