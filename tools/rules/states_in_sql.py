"""ARC-9, SQL side: every state that a statement writes or compares is one that the transition table lists.

The owning table of a `state` column is taken from its qualifier, or from the one table in scope; where the statement
does not tell (a column of a subquery), any listed state will do. An UPDATE that both demands and sets states must also
take listed arrows, and an INSERT must begin with one.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from attrs import frozen

from tayho.kernel.transitions import NEW, TABLES, TransitionTable
from tools.rules import state_columns
from tools.rules.house import Finding, House, SqlFile
from tools.rules.statements import Node, Statement, kind_of, parts_of, relation_name, statements_of

RULE = "ARC-9"
MEND = "name a listed state, or add it to tayho/kernel/transitions.py and to a migration"

# What each table name or alias stands for; None where it has no table of states.
Scope: TypeAlias = Mapping[str, TransitionTable | None]


@frozen
class Fault:
    """A literal that is no state, or the target of an arrow that is not listed."""

    literal: str
    message: str


def check(house: House) -> Iterator[Finding]:
    for sql in house.sql:
        if sql.room is None and not sql.is_migration:
            continue  # the snapshot repeats the migrations
        for statement in statements_of(sql):
            for fault in _faults(statement.node, {}):
                yield Finding(sql.path, _line(sql, statement, fault.literal), RULE, fault.message)


def _line(sql: SqlFile, statement: Statement, literal: str) -> int:
    """The first line of the statement that holds the literal: the parser keeps no place for it."""
    lines = sql.text.split("\n")
    for number in range(statement.line, len(lines) + 1):
        if literal in lines[number - 1].partition("--")[0]:
            return number
    return statement.line


def _faults(node: Node, outer: Scope) -> Iterator[Fault]:
    scope = {**outer, **_names(node)}
    for literal, table in _states(node, scope):
        yield from _unlisted(literal, table)
    match kind_of(node):
        case "UpdateStmt":
            yield from _wrong_arrows(node)
        case "InsertStmt":
            yield from _wrong_beginnings(node)
        case _:
            pass
    for part in parts_of(node):
        yield from _faults(part, scope)


def _states(node: Node, scope: Scope) -> Iterator[tuple[str, TransitionTable | None]]:
    """The literals that one node writes to a state column or compares with one, and the table that owns it."""
    match kind_of(node):
        case "A_Expr" | "CaseExpr":
            yield from ((literal, _owner(column, scope)) for literal, column in state_columns.compared(node))
        case "UpdateStmt":
            yield from ((literal, _table(node)) for literal in state_columns.assigned(node.targetList))
        case "InsertStmt":
            conflict = node.onConflictClause.targetList if node.onConflictClause else ()
            for literal in (*state_columns.inserted(node), *state_columns.assigned(conflict)):
                yield literal, _table(node)
        case "CreateStmt":
            yield from ((literal, _table(node)) for literal in state_columns.defaults(node))
        case _:
            pass


def _unlisted(literal: str, table: TransitionTable | None) -> Iterator[Fault]:
    if table is None and not any(literal in known.states for known in TABLES.values()):
        yield Fault(literal, f"no table lists a state {literal}: {MEND}")
    elif table is not None and literal not in table.states:
        yield Fault(literal, f"{table.name} lists no state {literal}: {MEND}")


def _wrong_arrows(update: Node) -> Iterator[Fault]:
    """The arrows of an UPDATE whose WHERE demands states of the row that it changes."""
    table = _table(update)
    if table is None:
        return
    own = (None, update.relation.alias.aliasname if update.relation.alias else update.relation.relname)
    sources = [literal for literal, name in state_columns.demanded(update.whereClause) if name in own]
    for target in state_columns.assigned(update.targetList):
        for source in sources:
            if {source, target} <= table.states and source != target and not _is_listed(table, source, target):
                yield Fault(target, f"{table.name} lists no arrow {source} -> {target}: {MEND}")


def _wrong_beginnings(insert: Node) -> Iterator[Fault]:
    table = _table(insert)
    for literal in state_columns.inserted(insert):
        if table is not None and literal in table.states and not _is_listed(table, NEW, literal):
            yield Fault(literal, f"{table.name} lists no beginning in {literal}: {MEND}")


def _is_listed(table: TransitionTable, source: str, target: str) -> bool:
    return any((arrow.source, arrow.target) == (source, target) for arrow in table.arrows)


def _table(statement: Node) -> TransitionTable | None:
    return TABLES.get(relation_name(statement.relation))


def _owner(column: Node, scope: Scope) -> TransitionTable | None:
    qualifier = state_columns.qualifier_of(column)
    if qualifier is not None:
        return scope.get(qualifier)
    return next(iter(scope.values())) if len(set(map(id, scope.values()))) == 1 else None


def _names(node: Node) -> dict[str, TransitionTable | None]:
    """The names that a statement's own tables go by."""
    relation: Node = getattr(node, "relation", None)
    sources = (relation, *(getattr(node, "fromClause", None) or ()), *(getattr(node, "usingClause", None) or ()))
    names: dict[str, TransitionTable | None] = {}
    for source in _ranges(sources):
        table = TABLES.get(relation_name(source)) if kind_of(source) == "RangeVar" else None
        names[source.alias.aliasname if source.alias else getattr(source, "relname", "")] = table
    if kind_of(node) in ("CreateTrigStmt", "InsertStmt"):
        names |= dict.fromkeys(("old", "new", "excluded"), TABLES.get(relation_name(relation)))
    return names


def _ranges(sources: Iterable[Node]) -> Iterator[Node]:
    for source in sources:
        match kind_of(source):
            case "RangeVar" | "RangeSubselect" | "RangeFunction":
                yield source
            case "JoinExpr":
                yield from _ranges((source.larg, source.rarg))
            case _:
                pass
