"""ARC-2: random bytes that could become a key are drawn in custody alone.

Importing a cryptography package elsewhere is import-linter's to refuse. Left for this rule is the standard library:
raw random bytes (`os.urandom`, `secrets.token_bytes`, …) anywhere in the product outside custody, and other randomness
(`secrets.token_hex`, `uuid4`, …) bound to a name that bears a key (see key_names.py).
"""

import ast
from collections.abc import Iterator

from tools.rules.house import Finding, House, Module
from tools.rules.key_names import bears_key
from tools.rules.names import dotted_name

RULE = "ARC-2"
RAW = frozenset({"urandom", "token_bytes", "randbytes", "getrandom"})
OTHER = frozenset({"token_hex", "token_urlsafe", "uuid4", "randbits", "randbelow", "getrandbits"})


def check(house: House) -> Iterator[Finding]:
    for module in house.product:
        if not module.in_package("tayho.custody"):
            yield from _check_module(module)


def _check_module(module: Module) -> Iterator[Finding]:
    for node in module.nodes:
        match node:
            case ast.Call(func=func) if _last(func) in RAW:
                yield Finding(
                    module.path,
                    node.lineno,
                    RULE,
                    f"{dotted_name(func)} draws raw random bytes outside custody: a key is made in tayho.custody; "
                    "for an identifier take uuid4 or secrets.token_hex",
                )
            case (
                ast.Assign(targets=[target], value=ast.Call(func=func))
                | ast.AnnAssign(target=target, value=ast.Call(func=func))
            ) if _last(func) in OTHER and bears_key(_last(target)):
                yield Finding(
                    module.path,
                    node.lineno,
                    RULE,
                    f"{_last(target)} comes from {dotted_name(func)} outside custody: make secrets in tayho.custody",
                )
            case _:
                pass


def _last(node: ast.AST) -> str:
    return (dotted_name(node) or "").rpartition(".")[2]
