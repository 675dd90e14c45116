"""The tree under check, read and parsed once: every rule looks at the same house."""

import ast
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from attrs import field, frozen

PRODUCT = ("nursery", "storage", "rpc", "tayho")
CONTEXT_MARKS = (["module.py"], ["store.py"])
# What is not in the house: planted violations are checked as houses of their own.
OUTSIDE = ("tests/planted/", "tools/node/")


@frozen(order=True)
class Finding:
    """One place that breaks one rule, and how to mend it."""

    path: str
    line: int
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule} {self.message}"


@frozen(eq=False, slots=False)
class Module:
    """One Python file."""

    path: str  # relative to the house, with forward slashes
    tree: ast.Module = field(repr=False)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Every node of the file."""
        return tuple(ast.walk(self.tree))

    @cached_property
    def imports(self) -> tuple[tuple[int, str], ...]:
        """Every module or name imported, as line and dotted name: `from a import b` gives `a.b`."""
        return tuple(found for node in self.nodes for found in _imported_by(node))

    @cached_property
    def name(self) -> str:
        """The dotted name that an import would use."""
        parts = self.path.removesuffix(".py").split("/")
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def file_name(self) -> str:
        return self.path.rpartition("/")[2]

    def in_package(self, *names: str) -> bool:
        """Whether the module is one of the named packages or modules, or lies below one."""
        return any(self.name == name or self.name.startswith(f"{name}.") for name in names)

    @property
    def is_product(self) -> bool:
        return self.in_package(*PRODUCT)


@frozen(eq=False)
class SqlFile:
    """One file of raw SQL."""

    path: str
    text: str

    @property
    def is_migration(self) -> bool:
        return self.path.startswith("sql/migrations/")

    @property
    def room(self) -> str | None:
        """The package that the queries of `sql/<package>/<noun>.sql` belong to; None for schema and migrations."""
        parts = self.path.split("/")
        return parts[1] if len(parts) > 2 and not self.is_migration else None


@frozen(eq=False, slots=False)
class House:
    """Every Python and SQL file below one root."""

    root: Path
    modules: tuple[Module, ...] = field(repr=False)
    sql: tuple[SqlFile, ...] = field(repr=False)

    @classmethod
    def read(cls, root: Path) -> "House":
        """Read the house. A Python file that does not parse raises SyntaxError with its path."""
        modules = tuple(_modules(root))
        sql = tuple(SqlFile(path, text) for path, text in _texts(root, ("sql",), ".sql"))
        return cls(root, modules, sql)

    @cached_property
    def contexts(self) -> frozenset[str]:
        """The bounded contexts: the packages directly under tayho with a face (`module.py`) or tables (`store.py`)."""
        paths = (module.path.split("/") for module in self.modules)
        return frozenset(parts[1] for parts in paths if parts[0] == "tayho" and parts[2:] in CONTEXT_MARKS)

    def context_of(self, dotted: str) -> str | None:
        """The context that a dotted module name lies in."""
        parts = dotted.split(".")
        inside = len(parts) > 1 and parts[0] == "tayho" and parts[1] in self.contexts
        return parts[1] if inside else None

    @property
    def product(self) -> Iterator[Module]:
        return (module for module in self.modules if module.is_product)


def _modules(root: Path) -> Iterator[Module]:
    for path, text in _texts(root, (*PRODUCT, "sql", "tools", "tests"), ".py"):
        yield Module(path, ast.parse(text, filename=path))


def _texts(root: Path, folders: tuple[str, ...], suffix: str) -> Iterator[tuple[str, str]]:
    for folder in folders:
        for path in sorted((root / folder).rglob(f"*{suffix}")):
            relative = path.relative_to(root).as_posix()
            if not relative.startswith(OUTSIDE):
                yield relative, path.read_text(encoding="utf-8")


def _imported_by(node: ast.AST) -> Iterator[tuple[int, str]]:
    match node:
        case ast.Import(names=aliases):
            for alias in aliases:
                yield alias.lineno, alias.name
        case ast.ImportFrom(module=str(module), level=0, names=aliases):
            for alias in aliases:
                yield alias.lineno, f"{module}.{alias.name}"
        case _:
            pass
