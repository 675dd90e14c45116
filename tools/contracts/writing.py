"""Writing a contract: a Protocol with the face's methods, beside everything that its context shows."""

import ast
import subprocess
import sys
import textwrap
from copy import copy
from pathlib import Path

from tools.contracts.face import CONTEXT_MANAGERS, SHOWN, Face, faces_in

FOLDER = "tayho/contracts"


def contracts_of(root: Path) -> dict[str, str]:
    """The text of every contract, by its path below `root`. Raises FaceRefused."""
    return {f"{FOLDER}/{face.context}.py": _formatted(root, _text(root, face)) for face in faces_in(root)}


def _text(root: Path, face: Face) -> str:
    imports = set(face.imports) | {("typing", "Protocol")}
    named = {node.id for member in face.members for node in ast.walk(member) if isinstance(node, ast.Name)}
    imports |= {("contextlib", manager) for manager in CONTEXT_MANAGERS.values() if manager in named}
    shown = [(module, name) for module in SHOWN for name in _public_names(root, face.context, module)]
    imports |= {(f"tayho.{face.context}.{module}", name) for module, name in shown}
    lines = [
        f'"""What {face.context} shows the other contexts.',
        "",
        f"Generated from tayho/{face.context}/module.py by `make contracts`; a stale copy fails the build.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        *(f"from {module} import {name}" for module, name in sorted(imports)),
        "",
        f"__all__ = {sorted({face.name, *(name for _, name in shown)})!r}",
        "",
        f"class {face.name}(Protocol):",
        textwrap.indent(_docstring(face.docstring), "    "),
        *(textwrap.indent(_member(member), "    ") for member in face.members),
    ]
    return "\n".join(lines) + "\n"


def _member(member: ast.stmt) -> str:
    """The source of one member, its docstring as a person would write it."""
    if not isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef):
        return ast.unparse(ast.fix_missing_locations(member))
    docstring = ast.get_docstring(member)
    bare = copy(member)
    bare.body = member.body[-1:]
    head = ast.unparse(ast.fix_missing_locations(bare)).rpartition("\n")[0]
    body = f"{_docstring(docstring)}\n..." if docstring else "..."
    return f"\n{head}\n{textwrap.indent(body, '    ')}"


def _docstring(text: str) -> str:
    """A docstring, closed on its own line when it has several."""
    return f'"""{text}\n"""' if "\n" in text else f'"""{text}"""'


def _public_names(root: Path, context: str, module: str) -> list[str]:
    """The public names that a file of a context declares itself."""
    path = root / "tayho" / context / f"{module}.py"
    if not path.exists():
        return []
    names: list[str] = []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                names.append(name)
            case ast.Assign(targets=[ast.Name(id=name)]):
                names.append(name)
            case _:
                pass
    return [name for name in names if not name.startswith("_")]


def _formatted(root: Path, text: str) -> str:
    """The text as ruff sorts and lays it out, so that it is what `make lint` would leave alone."""
    ruff = [sys.executable, "-m", "ruff"]
    for command in (["check", "--select", "I,F401,RUF022", "--fix", "--quiet"], ["format"]):
        name = ["--stdin-filename", f"{FOLDER}/generated.py", "-"]
        text = subprocess.run(  # noqa: S603 - our own formatter on our own text
            [*ruff, *command, *name], cwd=root, input=text, text=True, capture_output=True, check=True
        ).stdout
    return text
