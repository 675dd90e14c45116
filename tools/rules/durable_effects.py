"""PRF-2: every durable effect of a context has a named step beside it, where a test can kill the process.

A durable effect is
- an `async with ….transaction(…)` block,
- an `async with ….connection(…)` block that awaits a bound query which changes rows,
- an awaited call of a method in EFFECTS, on a queue or an endpoint.

Beside it means: in the same function, before or after it or before or after a block that holds it, with nothing awaited
in between, stands `step("…")`. A private function may leave the step to its callers: then each awaited call of it is an
effect of theirs.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from attrs import frozen

from tools.rules.house import Finding, House, Module
from tools.rules.names import identifier_of
from tools.rules.query_names import writing_names
from tools.rules.step_names import STEPS_FILE, step_name

RULE = "PRF-2"
EFFECTS = frozenset(
    {"publish_many", "complete_many", "finish_many", "fail", "put_back", "send_raw_transaction", "broadcast_raw"}
)
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


@frozen(order=True)
class Effect:
    """One durable effect, where it is written."""

    line: int
    what: str


@frozen
class Known:
    """What counts as an effect in one module: queries that write, and private functions that left their step out."""

    writing: frozenset[str]
    left_out: Mapping[str, frozenset[Effect]]


def check(house: House) -> Iterator[Finding]:
    writing = writing_names(house)
    for module in house.product:
        if house.context_of(module.name):
            for effect in sorted(_unnamed_in(module, writing)):
                message = (
                    f'{effect.what} is a durable effect without a name: put step("<noun>.<moment>") beside it and list '
                    f"the name in {STEPS_FILE}"
                )
                yield Finding(module.path, effect.line, RULE, message)


def _unnamed_in(module: Module, writing: frozenset[str]) -> set[Effect]:
    """The effects that no step names, after each private function has passed its own on to its callers."""
    functions = [node for node in module.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    passing = _passing_on(module, {function.name for function in functions if function.name.startswith("_")})
    left_out: dict[str, frozenset[Effect]] = {}
    while True:
        known = Known(writing, left_out)
        unnamed = {function.name: frozenset(_unnamed(function.body, known)) for function in functions}
        passed = {name: effects for name, effects in unnamed.items() if name in passing and effects}
        if passed == left_out:
            return {effect for name, effects in unnamed.items() if name not in passing for effect in effects}
        left_out = passed


def _passing_on(module: Module, private: set[str]) -> set[str]:
    """The private functions whose every use in the module is an awaited call."""
    awaited = {id(call.func) for call in _awaited_calls(module.tree)}
    uses = [(identifier_of(node), node) for node in module.nodes if isinstance(node, ast.Name | ast.Attribute)]
    called = {name for name, use in uses if id(use) in awaited}
    handed_on = {name for name, use in uses if id(use) not in awaited}
    return (private & called) - handed_on


def _unnamed(body: Sequence[ast.stmt], known: Known) -> Iterator[Effect]:
    for at, statement in enumerate(body):
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue  # looked at on its own
        if _meets_step(reversed(body[:at])) or _meets_step(body[at + 1 :]):
            continue
        yield from _effects(statement, known)
        for inner in _blocks(statement):
            yield from _unnamed(inner, known)


def _meets_step(statements: Iterable[ast.stmt]) -> bool:
    """Whether a step comes before anything is awaited."""
    for statement in statements:
        if step_name(statement) is not None:
            return True
        if any(isinstance(node, ast.Await | ast.AsyncWith | ast.AsyncFor) for node in ast.walk(statement)):
            return False
    return False


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    holders = (statement, *getattr(statement, "handlers", ()), *getattr(statement, "cases", ()))
    for holder in holders:
        for name in ("body", "orelse", "finalbody"):
            yield getattr(holder, name, [])


def _effects(statement: ast.stmt, known: Known) -> Iterator[Effect]:
    """The effects of a statement itself, not those of the blocks inside it."""
    if isinstance(statement, ast.AsyncWith):
        opened = {identifier_of(item.context_expr) for item in statement.items}
        written = [name for name in _called_in(statement) if name in known.writing]
        if "transaction" in opened:
            yield Effect(statement.lineno, "a transaction")
        elif "connection" in opened and written:
            yield Effect(statement.lineno, f"{written[0]}()")
    for node in ast.iter_child_nodes(statement):
        if not isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            for name, line in _called_in(node).items():
                if name in EFFECTS:
                    yield Effect(line, f"{name}()")
                yield from known.left_out.get(name, ())


def _called_in(node: ast.AST) -> dict[str, int]:
    """The names of the functions that are called and awaited inside a node, with a line of each."""
    return {identifier_of(call.func) or "": call.lineno for call in _awaited_calls(node)}


def _awaited_calls(node: ast.AST) -> Iterator[ast.Call]:
    for part in ast.walk(node):
        if isinstance(part, ast.Await) and isinstance(part.value, ast.Call):
            yield part.value
