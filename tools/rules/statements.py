"""The statements of an SQL file, parsed by PostgreSQL's own parser.

pglast types every attribute as possibly absent; the rules below it look at nodes by their kind and keep them untyped.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

from attrs import frozen
from pglast import ast, parse_sql

from tools.rules.house import SqlFile

Node: TypeAlias = Any  # a pglast node, a tuple of nodes, or a plain value


@frozen(eq=False)
class Statement:
    """One parsed statement and the line that it begins at."""

    node: Node
    line: int


def statements_of(sql: SqlFile) -> Iterator[Statement]:
    """Each statement of the file. Text that does not parse raises pglast's ParseError."""
    for raw in parse_sql(sql.text):
        start = _first_token(sql.text, raw.stmt_location or 0)
        yield Statement(raw.stmt, sql.text.count("\n", 0, start) + 1)


def kind_of(node: Node) -> str:
    """The name of the node's class in PostgreSQL's parse tree, such as UpdateStmt."""
    return type(node).__name__


def parts_of(node: Node) -> Iterator[Node]:
    """The nodes directly below a node."""
    if kind_of(node) == "tuple":
        yield from node
    elif isinstance(node, ast.Node):
        for name in node:
            yield getattr(node, name)


def relation_name(relation: Node) -> str:
    """`schema.table` of a RangeVar."""
    return ".".join(part for part in (relation.schemaname, relation.relname) if part)


def _first_token(text: str, at: int) -> int:
    """Skip blanks and comments: the parser counts them to the statement that follows."""
    while at < len(text):
        if text.startswith("--", at):
            newline = text.find("\n", at)
            at = len(text) if newline < 0 else newline
        elif text[at].isspace():
            at += 1
        else:
            break
    return at
