"""ARC-8: what ruff and flake8-async do not say about structured concurrency.

Refused in the product and its tools: threads, processes and event loops of the standard library; the bridge alone
imports asyncio; the client alone imports anyio, for it runs on the loop of whoever uses it; Trio's ways out of a
nursery; a loop's own tasks and timers; a shield outside nursery/cleanup.py.
Blocking calls in async code and handlers that swallow a cancellation are flake8-async's and ruff's (ASYNC, BLE, E722).
"""

import ast
from collections.abc import Iterator

from tools.rules.house import Finding, House, Module
from tools.rules.names import dotted_name

RULE = "ARC-8"
BRIDGE = "nursery.asyncio_bridge"
CLEANUP = "nursery.cleanup"
CLIENT = "tayho.client"
FORBIDDEN_IMPORTS = {
    "asyncio": "asyncio lives behind nursery.asyncio_bridge: call run_asyncio, or take Trio's own tool",
    "threading": "no thread runs outside a nursery: take a Trio task",
    "_thread": "no thread runs outside a nursery: take a Trio task",
    "multiprocessing": "a process is started in a nursery: take trio.run_process",
    "concurrent": "no pool runs outside a nursery: take Trio tasks and a trio.CapacityLimiter",
    "sched": "a timer is a task: take nursery.periodic.every",
    "anyio": "outside of tayho.client Trio is the only async library of the product",
}
ESCAPES = {
    "trio.to_thread": "a thread outlives the cancellation of its caller: find an async way, or do it before the loop",
    "trio.from_thread": "no foreign thread calls into the nursery",
    "trio.lowlevel.spawn_system_task": "a system task lives outside every nursery: start it in the one that owns it",
    "trio.lowlevel.start_guest_run": "one loop hosts the process: trio.run at the root",
    "trio.lowlevel.spawn_thread": "no thread runs outside a nursery",
    "os.fork": "a forked loop is two loops with one set of sockets: take trio.run_process",
}
LOOP_METHODS = frozenset(
    {"create_task", "ensure_future", "run_in_executor", "call_later", "call_at", "call_soon", "call_soon_threadsafe"}
)


def check(house: House) -> Iterator[Finding]:
    for module in house.modules:
        if module.is_product or module.in_package("tools"):
            yield from _check_imports(module)
            yield from _check_nodes(module)


def _check_imports(module: Module) -> Iterator[Finding]:
    for line, target in module.imports:
        root = target.partition(".")[0]
        is_home = (root == "asyncio" and module.name == BRIDGE) or (root == "anyio" and module.in_package(CLIENT))
        if root in FORBIDDEN_IMPORTS and not is_home:
            yield Finding(module.path, line, RULE, f"imports {root}: {FORBIDDEN_IMPORTS[root]}")
        for escape, mend in ESCAPES.items():
            if target == escape or target.startswith(f"{escape}."):
                yield Finding(module.path, line, RULE, f"imports {escape}: {mend}")


def _check_nodes(module: Module) -> Iterator[Finding]:
    for node in module.nodes:
        match node:
            case ast.Attribute() if (name := dotted_name(node)) in ESCAPES:
                yield Finding(module.path, node.lineno, RULE, f"{name}: {ESCAPES[name]}")
            case ast.Call(func=ast.Attribute(attr=method)) if method in LOOP_METHODS and module.name != BRIDGE:
                yield Finding(
                    module.path,
                    node.lineno,
                    RULE,
                    f"{method}() starts work outside a nursery: start a task in the nursery that owns it",
                )
            case _ if module.name != CLEANUP and _shields(node):
                yield Finding(
                    module.path,
                    getattr(node, "lineno", 0),
                    RULE,
                    "a shield outside nursery/cleanup.py: call nursery.cleanup.finish, which has a deadline",
                )
            case _:
                pass


def _shields(node: ast.AST) -> bool:
    """Whether a keyword or an assignment sets a cancel scope's shield to anything but False."""
    match node:
        case ast.keyword(arg="shield", value=value):
            pass
        case ast.Assign(targets=[ast.Attribute(attr="shield")], value=value):
            pass
        case _:
            return False
    return not (isinstance(value, ast.Constant) and value.value is False)
