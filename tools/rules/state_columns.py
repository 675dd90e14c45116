"""Where an SQL statement names a state: the literals that meet a column called `state`."""

from collections.abc import Iterator

from pglast.enums import A_Expr_Kind, BoolExprType

from tools.rules.statements import Node, kind_of

COLUMN = "state"
ADMITTING = frozenset({A_Expr_Kind.AEXPR_OP, A_Expr_Kind.AEXPR_IN, A_Expr_Kind.AEXPR_OP_ANY})


def compared(node: Node) -> Iterator[tuple[str, Node]]:
    """The literals that an expression compares with a state column, each with the column."""
    match kind_of(node):
        case "CaseExpr" if _is_state(node.arg):
            yield from ((literal, node.arg) for when in node.args for literal in _literals(when.expr))
        case "A_Expr":
            for one, other in ((node.lexpr, node.rexpr), (node.rexpr, node.lexpr)):
                if _is_state(one):
                    yield from ((literal, one) for literal in _literals(other))
        case _:
            pass


def demanded(condition: Node) -> Iterator[tuple[str, str | None]]:
    """The states that a WHERE admits, each with the qualifier of the column: only plain conjuncts tell."""
    match kind_of(condition):
        case "BoolExpr" if condition.boolop == BoolExprType.AND_EXPR:
            for part in condition.args:
                yield from demanded(part)
        case "A_Expr" if condition.kind in ADMITTING and condition.name[-1].sval == "=":
            for literal, column in compared(condition):
                yield literal, qualifier_of(column)
        case _:
            pass


def assigned(targets: Node) -> Iterator[str]:
    """The states that a SET list writes."""
    for target in targets or ():
        if target.name == COLUMN:
            yield from _literals(target.val)


def inserted(insert: Node) -> Iterator[str]:
    """The states that an INSERT writes, by the place of the column."""
    columns = [column.name for column in insert.cols or ()]
    if COLUMN not in columns or insert.selectStmt is None:
        return
    at = columns.index(COLUMN)
    for row in insert.selectStmt.valuesLists or ():
        yield from _literals(row[at])
    listed = insert.selectStmt.targetList or ()
    if at < len(listed):
        yield from _literals(listed[at].val)


def defaults(create: Node) -> Iterator[str]:
    """The states that the column definitions of a CREATE TABLE begin with."""
    for column in create.tableElts or ():
        if kind_of(column) == "ColumnDef" and column.colname == COLUMN:
            for constraint in column.constraints or ():
                yield from _literals(constraint.raw_expr)


def qualifier_of(column: Node) -> str | None:
    """The table or alias that a column reference names, if it does."""
    return column.fields[-2].sval if len(column.fields) > 1 else None


def _is_state(node: Node) -> bool:
    return kind_of(node) == "ColumnRef" and getattr(node.fields[-1], "sval", None) == COLUMN


def _literals(node: Node) -> Iterator[str]:
    """The text literals that an expression may come to."""
    match kind_of(node):
        case "tuple":
            for part in node:
                yield from _literals(part)
        case "A_Const" if kind_of(node.val) == "String":
            yield from (part for part in node.val.sval.strip("{}").split(",") if part)
        case "TypeCast":
            yield from _literals(node.arg)
        case "A_ArrayExpr":
            yield from _literals(node.elements)
        case "CoalesceExpr":
            yield from _literals(node.args)
        case "CaseExpr":
            yield from (literal for when in node.args for literal in _literals(when.result))
            yield from _literals(node.defresult)
        case _:
            pass
