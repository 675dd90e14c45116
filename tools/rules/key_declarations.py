"""ARC-3: key-bearing declarations live in custody, under its KeyMaterial type.

Every variable, field, parameter and property of the product whose name bears a key (see key_names.py) is refused
outside tayho.custody, unless it is annotated with a sealed holder of custody (`SignerKeys`, `JournalKeys`); inside
custody it must be annotated with `KeyMaterial` or with such a holder. Tests make their own keys and are not looked at.
"""

import ast
from collections.abc import Iterator
from typing import TypeAlias

from tools.rules.house import Finding, House, Module
from tools.rules.key_names import bears_key
from tools.rules.names import identifier_of

RULE = "ARC-3"
SEALED = frozenset({"SignerKeys", "JournalKeys"})
MATERIAL = SEALED | {"KeyMaterial"}

Declaration: TypeAlias = tuple[int, str, ast.expr | None]  # line, name, annotation


def check(house: House) -> Iterator[Finding]:
    for module in house.product:
        custody = module.in_package("tayho.custody")
        allowed = MATERIAL if custody else SEALED
        declared = [*_declarations(module)]
        annotated = {name for _, name, annotation in declared if annotation is not None}
        for line, name, annotation in declared:
            if not bears_key(name) or _names_in(annotation) & allowed:
                continue
            if annotation is None and name in annotated:
                continue  # assigned again, or through self: the declaration itself is judged where it stands
            yield Finding(module.path, line, RULE, _message(name, custody))


def _message(name: str, custody: bool) -> str:
    if custody:
        return f"{name} bears a key but is not annotated KeyMaterial: annotate it, so that it neither prints nor leaks"
    return (
        f"{name} bears a key outside custody: hold it in tayho.custody and pass its SignerKeys or JournalKeys, "
        "annotated; if it only names a key, end the name with _id, _name or _file"
    )


def _names_in(annotation: ast.expr | None) -> set[str]:
    """The type names an annotation speaks of, also inside a quoted one."""
    if annotation is None:
        return set()
    found = {identifier_of(node) or "" for node in ast.walk(annotation)}
    for node in ast.walk(annotation):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= set(node.value.replace("[", " ").replace("]", " ").replace("|", " ").replace(".", " ").split())
    return found


def _declarations(module: Module) -> Iterator[Declaration]:
    for node in module.nodes:
        match node:
            case ast.arg(arg=name, annotation=annotation):
                yield node.lineno, name, annotation
            case ast.AnnAssign(target=ast.Name(id=name) | ast.Attribute(attr=name), annotation=annotation):
                yield node.lineno, name, annotation
            case ast.FunctionDef(name=name, returns=returns) if _is_property(node):
                yield node.lineno, name, returns
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name, None
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield node.lineno, name, None
            case _:
                pass


def _is_property(node: ast.FunctionDef) -> bool:
    return any((identifier_of(decorator) or "").endswith("property") for decorator in node.decorator_list)
