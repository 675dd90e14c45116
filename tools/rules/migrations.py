"""ARC-6: what squawk does not say of a migration.

A migration whose first line is not `-- contract` may not destroy or block: no DELETE, TRUNCATE, LOCK or CLUSTER, no
UPDATE of a whole table, no trigger or policy dropped or switched off, no table rewritten to UNLOGGED, no DROP of what
squawk has no rule for. Tables made by the same migration are free.
"""

from collections.abc import Iterator

from pglast.enums import AlterTableType, ObjectType

from tools.rules.house import Finding, House, SqlFile
from tools.rules.statements import Node, Statement, kind_of, relation_name, statements_of

RULE = "ARC-6"
MARK = "-- contract"
# What squawk refuses itself, each by a rule of its own (ban-drop-table, …).
SQUAWK_DROPS = frozenset(
    {
        ObjectType.OBJECT_TABLE,
        ObjectType.OBJECT_SCHEMA,
        ObjectType.OBJECT_TYPE,
        ObjectType.OBJECT_FUNCTION,
        ObjectType.OBJECT_INDEX,
        ObjectType.OBJECT_VIEW,
        ObjectType.OBJECT_SEQUENCE,
    }
)
BLOCKING_CHANGES = {
    AlterTableType.AT_SetLogged: "rewrites the table",
    AlterTableType.AT_SetUnLogged: "rewrites the table and loses it at a crash",
    AlterTableType.AT_DisableTrig: "switches a guard off",
    AlterTableType.AT_DisableTrigAll: "switches every guard off",
    AlterTableType.AT_DisableTrigUser: "switches every guard off",
    AlterTableType.AT_DisableRowSecurity: "switches row security off",
}


def check(house: House) -> Iterator[Finding]:
    for sql in house.sql:
        if sql.is_migration and not is_contract(sql.text):
            yield from _check_migration(sql)


def is_contract(text: str) -> bool:
    """Whether the migration declares itself the contracting half of expand-then-contract."""
    return text.partition("\n")[0].strip() == MARK


def _check_migration(sql: SqlFile) -> Iterator[Finding]:
    fresh: set[str] = set()
    for statement in statements_of(sql):
        if kind_of(statement.node) == "CreateStmt":
            fresh.add(relation_name(statement.node.relation))
        fault = _fault(statement, fresh)
        if fault is not None:
            yield Finding(
                sql.path,
                statement.line,
                RULE,
                f"{fault}: expand first, and put this into a later migration whose first line is `{MARK}`",
            )


def _fault(statement: Statement, fresh: set[str]) -> str | None:
    node = statement.node
    match kind_of(node):
        case "DeleteStmt" if relation_name(node.relation) not in fresh:
            return "DELETE destroys rows"
        case "UpdateStmt" if node.whereClause is None and relation_name(node.relation) not in fresh:
            return "UPDATE without WHERE locks every row"
        case "TruncateStmt":
            return "TRUNCATE destroys rows"
        case "LockStmt":
            return "LOCK blocks every user of the table"
        case "ClusterStmt":
            return "CLUSTER blocks every user of the table while it is rewritten"
        case "DropStmt" if node.removeType not in SQUAWK_DROPS:
            return f"DROP {_object(node.removeType)} takes something away that a running version may use"
        case "DropRoleStmt":
            return "DROP ROLE takes a login away that a running version may use"
        case "AlterTableStmt" if relation_name(node.relation) not in fresh:
            changes = [BLOCKING_CHANGES.get(change.subtype) for change in node.cmds]
            return next((f"this {fault}" for fault in changes if fault), None)
        case _:
            return None


def _object(kind: Node) -> str:
    return str(kind.name).removeprefix("OBJECT_").replace("_", " ")
