"""ARC-9, Python side: a state named in tayho is one that a transition table lists.

Looked at are comparisons, memberships, matches, assignments and keyword arguments of a name that ends in `state`, and
of `row["state"]`. `job_state` belongs to the table whose rows are jobs; a bare `state` to the tables of the context
that the module lies in, or to any table elsewhere.
"""

import ast
from collections.abc import Iterator

from tayho.kernel.transitions import TABLES, TransitionTable
from tools.rules.house import Finding, House, Module
from tools.rules.names import identifier_of, words

RULE = "ARC-9"
SINGULARS = {"jobs": "job", "attempts": "attempt", "lanes": "lane", "lineages": "lineage", "members": "member"}


def check(house: House) -> Iterator[Finding]:
    for module in house.product:
        if module.in_package("tayho"):
            yield from _check_module(house, module)


def _check_module(house: House, module: Module) -> Iterator[Finding]:
    context = house.context_of(module.name)
    for node in module.nodes:
        for name, value in _pairs(node):
            tables = _tables(name, context)
            for literal in _texts(value):
                if tables and not any(literal.value in table.states for table in tables):
                    yield Finding(
                        module.path,
                        literal.lineno,
                        RULE,
                        f"{' or '.join(table.name for table in tables)} lists no state {literal.value}: "
                        "name a listed state, or add it to tayho/kernel/transitions.py and to a migration",
                    )


def _pairs(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Names that hold a state, each with what it is compared with or set to."""
    match node:
        case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() | ast.In() | ast.NotIn()], comparators=[right]):
            for one, other in ((left, right), (right, left)):
                if name := _state_name(one):
                    yield name, other
        case ast.keyword(arg=str(name), value=value) if _says_state(name):
            yield name, value
        case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
            if name := _state_name(target):
                yield name, value
        case ast.Match(subject=subject, cases=cases):
            if name := _state_name(subject):
                yield from ((name, case.pattern) for case in cases)
        case _:
            pass


def _state_name(node: ast.expr) -> str | None:
    match node:
        case ast.Subscript(slice=ast.Constant(value=str(name))) if _says_state(name):
            return name
        case _:
            name = identifier_of(node)
            return name if name is not None and _says_state(name) else None


def _says_state(name: str) -> bool:
    return words(name)[-1:] == ("state",)


def _tables(name: str, context: str | None) -> list[TransitionTable]:
    owner = "_".join(words(name)[:-1])
    if owner:
        return [table for table in TABLES.values() if SINGULARS.get(table.name.rpartition(".")[2]) == owner]
    return [table for table in TABLES.values() if context is None or table.name.startswith(f"{context}.")]


def _texts(node: ast.AST) -> Iterator[ast.Constant]:
    match node:
        case ast.Constant(value=str()):
            yield node
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            for part in parts:
                yield from _texts(part)
        case ast.Call(func=ast.Name(id="frozenset"), args=[inner]):
            yield from _texts(inner)
        case ast.IfExp(body=body, orelse=orelse):
            yield from _texts(body)
            yield from _texts(orelse)
        case ast.MatchValue(value=value):
            yield from _texts(value)
        case ast.MatchOr(patterns=patterns):
            for pattern in patterns:
                yield from _texts(pattern)
        case _:
            pass
