"""ARC-4: money, gas and fees are integers; no float may touch an identifier named for them.

A name is money when one of its words is in MONEY, unless its last word is in NOT_MONEY and so says that the value is
something else (`fee_poll_seconds`, `gas_report_path`). Looked for, in product and tests alike: a float literal, a call
of float() or round() and a true division that meets such a name, and such a name annotated as float.
"""

import ast
from collections.abc import Iterator

from tools.rules.house import Finding, House, Module
from tools.rules.names import identifier_of, words

RULE = "ARC-4"
MONEY = frozenset({"wei", "gwei", "ether", "gas", "fee", "amount", "balance", "price", "cost", "tip", "money", "paid"})
NOT_MONEY = frozenset(
    {"second", "millisecond", "path", "file", "folder", "directory", "count", "name", "id", "text", "label"}
)
COUNTING = frozenset({"len", "isinstance", "str", "repr", "type", "hash", "approx"})


def check(house: House) -> Iterator[Finding]:
    for module in house.modules:
        yield from _check_module(module)


def is_money(identifier: str) -> bool:
    """Whether an identifier is named for money, gas or a fee."""
    parts = [word if word == "gas" else word.removesuffix("s") for word in words(identifier)]
    return bool(parts) and parts[-1] not in NOT_MONEY and any(part in MONEY for part in parts)


def _check_module(module: Module) -> Iterator[Finding]:
    found: set[tuple[int, str]] = set()
    for node in module.nodes:
        for what, name in _faults(node):
            found.add((getattr(node, "lineno", 0), f"{what} touches {name}: money is an integer in its smallest unit; "
                       "use int arithmetic with // and say which way it rounds"))  # fmt: skip
    for line, message in sorted(found):
        yield Finding(module.path, line, RULE, message)


def _faults(node: ast.AST) -> Iterator[tuple[str, str]]:
    match node:
        case ast.BinOp(left=left, op=op, right=right):
            yield from _mixed(left, right, division=isinstance(op, ast.Div))
        case ast.Compare(left=left, comparators=comparators):
            for other in comparators:
                yield from _mixed(left, other, division=False)
        case ast.Call(func=ast.Name(id="float" | "round" as function), args=args):
            for name in _money_in(*args):
                yield f"{function}()", name
        case ast.AugAssign(target=target, op=op, value=value):
            yield from _mixed(target, value, division=isinstance(op, ast.Div))
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _bound(target, value)
        case ast.AnnAssign(target=target, annotation=annotation, value=value):
            yield from _annotated(identifier_of(target), annotation)
            if value is not None:
                yield from _bound(target, value)
        case ast.keyword(arg=str(name), value=value) if is_money(name) and (what := _float_in(value)):
            yield what, name
        case ast.arg(arg=name, annotation=annotation):
            yield from _annotated(name, annotation)
        case ast.FunctionDef(name=name, returns=returns) | ast.AsyncFunctionDef(name=name, returns=returns):
            yield from _annotated(name, returns)
            yield from _defaults(node.args)
        case _:
            pass


def _mixed(left: ast.expr, right: ast.expr, *, division: bool) -> Iterator[tuple[str, str]]:
    """An operator with money on one side and a float on the other, or a true division of money."""
    if division:
        for name in _money_in(left, right):
            yield "true division", name
    for one, other in ((left, right), (right, left)):
        if isinstance(one, ast.Constant) and isinstance(one.value, float):
            for name in _money_in(other):
                yield "a float literal", name


def _bound(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, str]]:
    name = identifier_of(target)
    if name is not None and is_money(name) and (what := _float_in(value)):
        yield what, name


def _annotated(name: str | None, annotation: ast.expr | None) -> Iterator[tuple[str, str]]:
    if name is None or annotation is None or not is_money(name):
        return
    if any(isinstance(part, ast.Name) and part.id == "float" for part in ast.walk(annotation)):
        yield "the type float", name


def _defaults(arguments: ast.arguments) -> Iterator[tuple[str, str]]:
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = [*zip(reversed(positional), reversed(arguments.defaults), strict=False)]
    pairs += [(arg, value) for arg, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value]
    for arg, value in pairs:
        if is_money(arg.arg) and (what := _float_in(value)):
            yield what, arg.arg


def _float_in(value: ast.expr) -> str | None:
    """What makes the value of this expression a float; calls of other functions answer for themselves."""
    match value:
        case ast.Constant(value=float()):
            return "a float literal"
        case ast.Call(func=ast.Name(id="float" | "round" as function)):
            return f"{function}()"
        case ast.BinOp(op=ast.Div(), left=left, right=right) if not _is_path(left, right):
            return "true division"
        case ast.BinOp(left=left, right=right):
            return _float_in(left) or _float_in(right)
        case ast.UnaryOp(operand=operand):
            return _float_in(operand)
        case ast.IfExp(body=body, orelse=orelse):
            return _float_in(body) or _float_in(orelse)
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            return next(filter(None, map(_float_in, parts)), None)
        case ast.Call(func=ast.Name(id="int"), args=[inner, *_]):
            return _float_in(inner)
        case _:
            return None


def _is_path(*operands: ast.expr) -> bool:
    """Whether `/` joins a path: one side is text."""
    return any(isinstance(side, ast.JoinedStr) or (isinstance(side, ast.Constant) and isinstance(side.value, str))
               for side in operands)  # fmt: skip


def _money_in(*expressions: ast.expr) -> Iterator[str]:
    """The money names whose value flows into an expression; the length of a list of fees is no fee."""
    for expression in expressions:
        match expression:
            case ast.Name(id=name) if is_money(name):
                yield name
            case ast.Attribute(attr=name) if is_money(name):
                yield name
            case ast.Call(func=func, args=args):
                if identifier_of(func) not in COUNTING:
                    yield from _money_in(func, *args)
            case ast.BinOp(op=ast.Div(), left=left, right=right) if _is_path(left, right):
                pass
            case ast.BinOp(left=left, right=right):
                yield from _money_in(left, right)
            case ast.UnaryOp(operand=inner) | ast.Subscript(value=inner) | ast.Await(value=inner):
                yield from _money_in(inner)
            case ast.Starred(value=inner):
                yield from _money_in(inner)
            case _:
                pass
