"""The named queries of the SQL files, and the Python names that they are bound to."""

import ast
import re
from collections.abc import Iterator

from attrs import frozen
from pglast import parse_sql

from tools.rules.house import House, Module, SqlFile
from tools.rules.names import identifier_of
from tools.rules.statements import Node, kind_of, parts_of

BINDERS = frozenset({"many", "one", "scalar", "command"})
NAME_LINE = re.compile(r"^--\s*name:\s*(\w+)[^\n]*$", re.MULTILINE)
WRITING = frozenset({"InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt"})


@frozen
class Query:
    """One query of `sql/<room>/<noun>.sql`; its reference is `<room>/<noun>.<name>`."""

    reference: str
    text: str
    line: int

    @property
    def writes(self) -> bool:
        """Whether the statement, or one of its WITH parts, changes rows."""
        return any(_has_writing(raw.stmt) for raw in parse_sql(self.text))


def queries_of(sql: SqlFile) -> Iterator[Query]:
    """The queries of one file, in order."""
    stem = sql.path.removeprefix("sql/").removesuffix(".sql")
    starts = list(NAME_LINE.finditer(sql.text))
    ends = [*(start.start() for start in starts[1:]), len(sql.text)]
    for start, end in zip(starts, ends, strict=True):
        line = sql.text.count("\n", 0, start.start()) + 1
        yield Query(f"{stem}.{start[1]}", sql.text[start.end() : end], line)


def bindings_of(module: Module) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Every call of a binder of storage.queries, with its argument."""
    if any(target.startswith("storage.queries.") for _, target in module.imports):
        for node in module.nodes:
            match node:
                case ast.Call(func=ast.Name(id=name), args=[reference]) if name in BINDERS:
                    yield node, reference
                case _:
                    pass


def writing_names(house: House) -> frozenset[str]:
    """The Python names that a query which changes rows is bound to."""
    writing = {query.reference for sql in house.sql if sql.room for query in queries_of(sql) if query.writes}
    found: set[str] = set()
    for module in house.product:
        bound = {id(call) for call, ref in bindings_of(module) if getattr(ref, "value", None) in writing}
        for node in module.nodes:
            match node:
                case ast.Assign(targets=[target], value=value) if id(value) in bound:
                    found.add(identifier_of(target) or "")
                case _:
                    pass
    return frozenset(found)


def _has_writing(node: Node) -> bool:
    return kind_of(node) in WRITING or any(_has_writing(part) for part in parts_of(node))
