"""ARC-1: what one room may see of a context. The arrows between rooms are import-linter's (.importlinter)."""

from collections.abc import Iterator

from tools.rules.house import Finding, House, Module

RULE = "ARC-1"
# What a host may import of a context; `producing` and `signing` are what a foreign program carries of one.
FACES = ("module", "producing", "signing", "types")
# What a generated contract may name: shared values, and whose transaction, node or drain it is handed.
CONTRACT_MAY_SEE = ("tayho.kernel", "tayho.kinds", "storage.database", "rpc", "nursery.drain")
CONTRACT_MAY_SHOW = ("types", "errors")  # and what of its own context


def check(house: House) -> Iterator[Finding]:
    for module in house.product:
        for line, target in module.imports:
            message = _refusal(house, module, target)
            if message is not None:
                yield Finding(module.path, line, RULE, message)


def _refusal(house: House, module: Module, target: str) -> str | None:
    if module.in_package("tayho.contracts"):
        return _contract_refusal(house, target)
    context = house.context_of(target)
    own = house.context_of(module.name)
    if context is None or context == own:
        return None
    if own is not None:
        return (
            f"context {own} imports {target}: a context sees another only through its contract; "
            f"import from tayho.contracts.{context} and let the daemon hand the object in"
        )
    if target.split(".")[2:3] not in [[face] for face in FACES]:
        return (
            f"{module.name} imports {target}: outside a context only its faces are seen; "
            f"use tayho.{context}.module, or show what is needed there"
        )
    return None


def _contract_refusal(house: House, target: str) -> str | None:
    if not target.startswith(("tayho.", "storage", "rpc", "nursery")):
        return None
    if any(target == name or target.startswith(f"{name}.") for name in CONTRACT_MAY_SEE):
        return None
    if house.context_of(target) is not None and target.split(".")[2:3] in [[shown] for shown in CONTRACT_MAY_SHOW]:
        return None
    return (
        f"a contract imports {target}: it may name only the kernel, the types of a context and the connection "
        "it is handed; move the value into the context's types.py and run `make contracts`"
    )
