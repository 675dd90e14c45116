"""ARC-8: what waits during a cleanup waits inside nursery.cleanup.finish.

A bare await in a `finally`, or in a handler of BaseException or Cancelled, is cancelled at once when the scope was, and
the resource stays open; without a deadline it may instead hang the process. flake8-async would ask for a shield in
place (ASYNC102); here the shield is inside `finish`, or inside a function of the same package that waits for nothing
but `finish`. Coroutine functions that are handed to run_asyncio are asyncio's, which delivers a cancellation only once.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from tools.rules.house import Finding, House, Module
from tools.rules.names import identifier_of

RULE = "ARC-8"
CLEANUP = "nursery.cleanup"
FINISH = "finish"
CATCHES_CANCELLATION = frozenset({"BaseException", "Cancelled"})
Functions: TypeAlias = Mapping[str, Sequence[ast.AsyncFunctionDef]]


def check(house: House) -> Iterator[Finding]:
    for package in sorted({module.name.partition(".")[0] for module in house.product}):
        modules = [module for module in house.product if module.in_package(package)]
        shielded = _shielded(_functions(modules))
        asyncio_flavoured = {name for module in modules for name in _handed_to_asyncio(module)}
        for module in modules:
            if module.name != CLEANUP:
                yield from _check_module(module, shielded, asyncio_flavoured)


def _check_module(module: Module, shielded: set[str], asyncio_flavoured: set[str]) -> Iterator[Finding]:
    for function in module.nodes:
        if not isinstance(function, ast.AsyncFunctionDef) or function.name in asyncio_flavoured:
            continue
        for where, body in _cleanups(function):
            for line in _unshielded(body, shielded):
                message = f"waits in {where}: await nursery.cleanup.finish(…, seconds=…), which is shielded and ends"
                yield Finding(module.path, line, RULE, message)


def _cleanups(function: ast.AsyncFunctionDef) -> Iterator[tuple[str, list[ast.stmt]]]:
    for node in _own_nodes(function.body):
        match node:
            case ast.Try(finalbody=body) | ast.TryStar(finalbody=body) if body:
                yield "a finally", body
            case ast.ExceptHandler(type=kind, body=body) if _catches_cancellation(kind):
                yield "a handler that catches cancellation", body
            case _:
                pass


def _catches_cancellation(kind: ast.expr | None) -> bool:
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(one is None or identifier_of(one) in CATCHES_CANCELLATION for one in kinds)


def _unshielded(body: Sequence[ast.stmt], shielded: set[str]) -> Iterator[int]:
    """The lines that wait for anything but `finish` and functions that are shielded themselves."""
    for node in _own_nodes(body):
        match node:
            case ast.Await(value=value) if identifier_of(value) not in shielded:
                yield node.lineno
            case ast.AsyncWith() | ast.AsyncFor():
                yield node.lineno
            case _:
                pass


def _shielded(functions: Functions) -> set[str]:
    """`finish`, and every name that some function has which waits, in the end, for nothing else."""
    shielded = {FINISH, *functions}
    while True:
        kept = {FINISH} | {
            name
            for name in shielded - {FINISH}
            if any(not [*_unshielded(function.body, shielded)] for function in functions[name])
        }
        if kept == shielded:
            return shielded
        shielded = kept


def _functions(modules: Sequence[Module]) -> Functions:
    found: dict[str, list[ast.AsyncFunctionDef]] = defaultdict(list)
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.AsyncFunctionDef):
                found[node.name].append(node)
    return found


def _handed_to_asyncio(module: Module) -> Iterator[str]:
    for node in module.nodes:
        match node:
            case ast.Call(func=func, args=[first, *_]) if identifier_of(func) == "run_asyncio":
                yield identifier_of(first) or ""
            case _:
                pass


def _own_nodes(body: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    """Every node of these statements but those of functions defined inside them, which run on their own."""
    waiting: list[ast.AST] = [*body]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)
