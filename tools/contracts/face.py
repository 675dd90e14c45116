"""Reading a context's face: the public methods of the one class in its `module.py`, and what their signatures name."""

import ast
from collections.abc import Iterator
from pathlib import Path

from attrs import frozen

SHOWN = ("types", "errors")  # the files of a context whose names may cross into another
CONTEXT_MANAGERS = {"asynccontextmanager": "AbstractAsyncContextManager", "contextmanager": "AbstractContextManager"}


class FaceRefused(Exception):
    """A face that no contract can be made of. The message tells how to mend it."""


@frozen
class Face:
    """What a contract shows: one class, its public methods, and the imports that their signatures need."""

    context: str
    name: str
    docstring: str
    members: tuple[ast.stmt, ...]
    imports: frozenset[tuple[str, str]]  # module, name


def faces_in(root: Path) -> Iterator[Face]:
    """The face of every context below `root`/tayho, in order. Raises FaceRefused."""
    for path in sorted((root / "tayho").glob("*/module.py")):
        yield _read(root, path)


def _read(root: Path, path: Path) -> Face:
    context = path.parent.name
    declared = [node for node in _parse(path).body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    if len(declared) != 1:
        raise FaceRefused(f"{_shown(path, root)} has {len(declared)} public classes: a face is exactly one")
    members: dict[str, ast.stmt] = {}
    imports: set[tuple[str, str]] = set()
    for file, owner in reversed([*_lineage(root, path, declared[0])]):
        names = _imported_names(_parse(file))
        for name, member in _public_members(owner):
            members[name] = member
            imports |= {_import_of(root, file, context, name, names) for name in _names_in(member) if name in names}
            _refuse_local_names(root, file, member)
    docstring = ast.get_docstring(declared[0]) or ""
    return Face(context, declared[0].name, docstring, tuple(members.values()), frozenset(imports))


def _lineage(root: Path, path: Path, declared: ast.ClassDef) -> Iterator[tuple[Path, ast.ClassDef]]:
    """The class and those of its bases that the same context declares, nearest first."""
    yield path, declared
    names = _imported_names(_parse(path))
    for base in declared.bases:
        module = names.get(ast.unparse(base), ("", ""))[0]
        if module.startswith(f"tayho.{path.parent.name}."):
            file = root / f"{module.replace('.', '/')}.py"
            for node in _parse(file).body:
                if isinstance(node, ast.ClassDef) and node.name == ast.unparse(base):
                    yield from _lineage(root, file, node)


def _public_members(declared: ast.ClassDef) -> Iterator[tuple[str, ast.stmt]]:
    """The methods, properties and annotated attributes that a caller sees, bodies left out."""
    for node in declared.body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if not name.startswith("_"):
                if not _decorators(node) & {"staticmethod", "classmethod"}:  # those make the object: no caller's part
                    yield name, _declaration(node)
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation) if not name.startswith("_"):
                yield name, ast.AnnAssign(ast.Name(name), annotation, None, 1)
            case _:
                pass


def _declaration(node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.stmt:
    """The method without its body. A context manager becomes a plain method that returns one."""
    docstring = ast.get_docstring(node)
    body: list[ast.stmt] = [ast.Expr(ast.Constant(docstring))] if docstring else []
    body.append(ast.Expr(ast.Constant(...)))
    returns, plain = node.returns, isinstance(node, ast.FunctionDef)
    for decorator, manager in CONTEXT_MANAGERS.items():
        if decorator in _decorators(node) and isinstance(returns, ast.Subscript):
            yielded = returns.slice.elts[0] if isinstance(returns.slice, ast.Tuple) else returns.slice
            returns, plain = ast.Subscript(ast.Name(manager), yielded), True
    kept: list[ast.expr] = [ast.Name("property")] if "property" in _decorators(node) else []
    make = ast.FunctionDef if plain else ast.AsyncFunctionDef
    return make(name=node.name, args=node.args, body=body, decorator_list=kept, returns=returns)


def _decorators(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    return {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}


def _import_of(root: Path, path: Path, context: str, name: str, names: dict[str, tuple[str, str]]) -> tuple[str, str]:
    module, imported = names[name]
    internal = module.startswith(f"tayho.{context}.") and module.rpartition(".")[2] not in SHOWN
    if internal or imported != name:
        raise FaceRefused(
            f"{_shown(path, root)}: a public signature names {name} of {module}: a contract shows only what stands in "
            f"tayho/{context}/types.py or errors.py, under its own name; move it there"
        )
    return module, name


def _refuse_local_names(root: Path, path: Path, member: ast.stmt) -> None:
    local = {node.name for node in _parse(path).body if isinstance(node, ast.ClassDef)}
    for name in sorted(local & _names_in(member)):
        raise FaceRefused(
            f"{_shown(path, root)}: a public signature names {name}, which is declared beside it: move it to types.py"
        )


def _names_in(member: ast.stmt) -> set[str]:
    return {node.id for node in ast.walk(member) if isinstance(node, ast.Name)}


def _imported_names(tree: ast.Module) -> dict[str, tuple[str, str]]:
    return {
        alias.asname or alias.name: (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def _shown(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()
