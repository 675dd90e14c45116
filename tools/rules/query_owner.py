"""ARC-5, query files: each `sql/<room>/<noun>.sql` is bound, whole, by one module of that room.

A query is bound by `many`, `one`, `scalar` or `command` of storage.queries with its reference as a literal,
`"<room>/<noun>.<query>"`. The room is a context (`tayho/<room>`) or a root package (`storage`).
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from attrs import frozen

from tools.rules.house import Finding, House, Module, SqlFile
from tools.rules.query_names import bindings_of, queries_of

RULE = "ARC-5"
REFERENCE = re.compile(r"^[a-z_]+/[a-z_]+\.\w+$")


@frozen
class Binding:
    """One place that binds one query."""

    reference: str
    path: str
    line: int
    in_room: bool


def check(house: House) -> Iterator[Finding]:
    bindings: dict[str, list[Binding]] = defaultdict(list)
    for module in house.product:
        for call, reference in bindings_of(module):
            if isinstance(reference, ast.Constant) and REFERENCE.match(str(reference.value)):
                text = str(reference.value)
                bindings[text].append(Binding(text, module.path, call.lineno, _in_room(module, text)))
            else:
                yield Finding(
                    module.path,
                    call.lineno,
                    RULE,
                    'a query without a name to look for: bind it by a literal "room/noun.query"',
                )
    files = [sql for sql in house.sql if sql.room is not None]
    for sql in files:
        yield from _check_file(sql, bindings)
    known = {query.reference for sql in files for query in queries_of(sql)}
    for binding in (one for name, bound in bindings.items() if name not in known for one in bound):
        yield Finding(binding.path, binding.line, RULE, f"no query {binding.reference}: name one of sql/")


def _check_file(sql: SqlFile, bindings: Mapping[str, Sequence[Binding]]) -> Iterator[Finding]:
    owners: set[str] = set()
    for query in queries_of(sql):
        bound = bindings.get(query.reference, ())
        if not bound:
            message = f"query {query.reference} has no owner: bind it in its room, or delete it"
            yield Finding(sql.path, query.line, RULE, message)
        owners |= {binding.path for binding in bound}
        for binding in bound:
            if not binding.in_room:
                message = f"query {query.reference} belongs to {sql.room}: bind it there and call that room's contract"
                yield Finding(binding.path, binding.line, RULE, message)
    if len(owners) > 1:
        message = f"bound by {', '.join(sorted(owners))}: a query file has one owner; split the file"
        yield Finding(sql.path, 1, RULE, message)


def _in_room(module: Module, reference: str) -> bool:
    room = reference.partition("/")[0]
    return module.in_package(room, f"tayho.{room}")
