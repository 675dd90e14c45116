"""ARC-5, Python side: where declarations live, and where logic does not.

- A package face (`__init__.py`) holds a docstring, imports and `__all__`; nothing else.
- `constants.py` holds constants: imports and assignments.
- `types.py` holds values: classes and type aliases. A method there is a property, a dunder, a classmethod that makes
  the value, an attrs hook, or a Protocol's bodiless declaration; it is short, and it neither waits, loops nor catches.
- In a bounded context, data types (attrs values without behaviour, enums, typed dicts, aliases) and constants that
  others import stand in `types.py` or `constants.py`; every other file but `errors.py` is an application file. Others
  are a module outside the context, or two inside it: what a single sibling takes is the answer of a function there.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping

from tools.rules.house import Finding, House, Module
from tools.rules.names import identifier_of

RULE = "ARC-5"
METHOD_STATEMENTS_MAX = 8
ATTRS = frozenset({"frozen", "define", "mutable", "dataclass"})
# A constant may be wrapped in one of these; what any other call returns (a bound query, a logger) is no constant.
CONTAINERS = frozenset({"frozenset", "tuple", "MappingProxyType", "timedelta", "UUID"})
DATA_BASES = frozenset({"Enum", "StrEnum", "IntEnum", "Flag", "TypedDict", "NamedTuple"})


def check(house: House) -> Iterator[Finding]:
    importers = _importers(house)
    for module in house.product:
        match module.file_name:
            case "__init__.py":
                yield from _check_face(module)
            case "constants.py":
                yield from _check_constants(module)
            case "types.py":
                yield from _check_types(module)
            case "errors.py":
                pass
            case _ if context := house.context_of(module.name):
                yield from _check_application(module, f"tayho.{context}.", importers)
            case _:
                pass


def _check_face(module: Module) -> Iterator[Finding]:
    for node in module.tree.body:
        if _is_docstring(node) or isinstance(node, ast.Import | ast.ImportFrom):
            continue
        if isinstance(node, ast.Assign) and [identifier_of(target) for target in node.targets] == ["__all__"]:
            continue
        yield _finding(module, node, "a package face only re-exports: move this into a module of the package")


def _check_constants(module: Module) -> Iterator[Finding]:
    for node in module.tree.body:
        if not (_is_docstring(node) or isinstance(node, ast.Import | ast.ImportFrom | ast.Assign | ast.AnnAssign)):
            yield _finding(module, node, "a constants file holds constants: move the logic beside what uses it")


def _check_types(module: Module) -> Iterator[Finding]:
    for node in module.tree.body:
        match node:
            case ast.Import() | ast.ImportFrom() | ast.AnnAssign():
                pass
            case ast.Assign():
                pass
            case ast.ClassDef():
                yield from _check_value(module, node)
            case _ if _is_docstring(node) or _is_type_checking(node):
                pass
            case _:
                yield _finding(module, node, "a types file holds values: move the logic into the file of its lifecycle")


def _check_value(module: Module, declared: ast.ClassDef) -> Iterator[Finding]:
    for node in declared.body:
        match node:
            case ast.FunctionDef(name=name):
                if not _is_small_method(node):
                    yield _finding(
                        module,
                        node,
                        f"{declared.name}.{name} is logic in a types file: keep properties, dunders and short "
                        "classmethods here, and move the rest into the file of its lifecycle",
                    )
            case ast.AsyncFunctionDef(name=name) if not _is_bodiless(node):
                yield _finding(module, node, f"{declared.name}.{name} waits: an effect does not belong in a types file")
            case _:
                pass


def _is_small_method(node: ast.FunctionDef) -> bool:
    if _is_bodiless(node):
        return True
    decorators = [identifier_of(decorator) or "" for decorator in node.decorator_list]
    hooked = any(name.endswith(("property", "classmethod", "validator", "default")) for name in decorators)
    dunder = node.name.startswith("__") and node.name.endswith("__")
    busy = any(isinstance(part, ast.While | ast.For | ast.Try | ast.With) for part in ast.walk(node))
    size = sum(isinstance(part, ast.stmt) for part in ast.walk(node)) - 1
    return (hooked or dunder) and not busy and size <= METHOD_STATEMENTS_MAX + _is_docstring(node.body[0])


def _is_bodiless(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    rest = node.body[1:] if _is_docstring(node.body[0]) else node.body
    return all(isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant) for part in rest)


def _importers(house: House) -> Mapping[str, frozenset[str]]:
    """Which product modules import each name, by the name's dotted path."""
    found: dict[str, frozenset[str]] = defaultdict(frozenset)
    for module in house.product:
        for _, target in module.imports:
            found[target] |= {module.name}
    return found


def _check_application(module: Module, context: str, importers: Mapping[str, frozenset[str]]) -> Iterator[Finding]:
    for node in module.tree.body:
        for name, what, home in _declared(node):
            others = importers.get(f"{module.name}.{name}", frozenset())
            if len(others) > 1 or any(not other.startswith(context) for other in others):
                message = (
                    f"{what} {name} is imported by {', '.join(sorted(others))}: declare it in the context's {home}"
                )
                yield _finding(module, node, message)


def _declared(node: ast.stmt) -> Iterator[tuple[str, str, str]]:
    """The data types and constants that a statement declares, with the file that they belong in."""
    match node:
        case ast.ClassDef(name=name) if _is_data(node):
            yield name, "the type", "types.py"
        case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
            if identifier_of(annotation) == "TypeAlias":
                yield name, "the type", "types.py"
            elif name.isupper():
                yield name, "the constant", "constants.py"
        case ast.Assign(targets=targets, value=value):
            for name in filter(None, map(identifier_of, targets)):
                if isinstance(value, ast.Call) and identifier_of(value) in ("NewType", "TypedDict", "NamedTuple"):
                    yield name, "the type", "types.py"
                elif name.isupper() and (not isinstance(value, ast.Call) or identifier_of(value) in CONTAINERS):
                    yield name, "the constant", "constants.py"
        case _:
            pass


def _is_data(node: ast.ClassDef) -> bool:
    if any(identifier_of(base) in DATA_BASES for base in node.bases):
        return True
    attrs = any(identifier_of(decorator) in ATTRS for decorator in node.decorator_list)
    methods = [part for part in node.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)]
    return attrs and all(isinstance(method, ast.FunctionDef) and _is_small_method(method) for method in methods)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_type_checking(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and identifier_of(node.test) == "TYPE_CHECKING"


def _finding(module: Module, node: ast.stmt, message: str) -> Finding:
    return Finding(module.path, node.lineno, RULE, message)
