"""PRF-2: each literal step name is taken once in the code base and listed in STEPS, and every name listed is taken."""

import ast
from collections.abc import Iterator

from tools.rules.house import Finding, House, Module
from tools.rules.names import identifier_of

RULE = "PRF-2"
STEPS_FILE = "tayho/kernel/steps.py"


def step_name(statement: ast.AST) -> str | None:
    """The name that a statement `step("…")` takes; None for any other node."""
    match statement:
        case ast.Expr(value=ast.Call(func=func, args=[ast.Constant(value=str(name))])) if identifier_of(func) == "step":
            return name
        case _:
            return None


def check(house: House) -> Iterator[Finding]:
    listed = _listed(house)
    seen: dict[str, Module] = {}
    for module in house.product:
        for node in module.nodes:
            name = step_name(node)
            if name is None or not isinstance(node, ast.stmt):
                continue
            if name in seen:
                message = f"step {name} is already taken in {seen[name].path}: rename one"
                yield Finding(module.path, node.lineno, RULE, message)
            elif name not in listed:
                yield Finding(module.path, node.lineno, RULE, f"step {name} is not listed: add it to {STEPS_FILE}")
            seen.setdefault(name, module)
    for name, line in listed.items():
        if name not in seen:
            yield Finding(STEPS_FILE, line, RULE, f"step {name} is listed but nowhere taken: take it, or remove it")


def _listed(house: House) -> dict[str, int]:
    for module in house.modules:
        if module.path == STEPS_FILE:
            for node in module.nodes:
                match node:
                    case ast.AnnAssign(target=ast.Name(id="STEPS"), value=ast.expr() as value):
                        names = (part for part in ast.walk(value) if isinstance(part, ast.Constant))
                        return {str(part.value): part.lineno for part in names}
                    case _:
                        pass
    return {}
