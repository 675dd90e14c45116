"""What an identifier says, word by word: the rules about money and keys go by names."""

import ast
from collections.abc import Iterator, Sequence


def words(identifier: str) -> tuple[str, ...]:
    """The lower-case words of a snake_case or UPPER_CASE identifier."""
    return tuple(word for word in identifier.lower().split("_") if word)


def has_run(identifier_words: Sequence[str], run: Sequence[str]) -> bool:
    """Whether the words of `run` stand beside each other, in order."""
    size = len(run)
    return any(tuple(identifier_words[at : at + size]) == tuple(run) for at in range(len(identifier_words) - size + 1))


def identifier_of(node: ast.AST) -> str | None:
    """The identifier that names the value of an expression: `a.fee_wei`, `fee_wei`, `fee_wei()`, `fees_wei[0]`."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=inner) | ast.Subscript(value=inner) | ast.Await(value=inner) | ast.Starred(value=inner):
            return identifier_of(inner)
        case _:
            return None


def dotted_name(node: ast.AST) -> str | None:
    """`trio.lowlevel.spawn_system_task` of such an expression; None for anything but names and attributes."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=inner, attr=name):
            owner = dotted_name(inner)
            return None if owner is None else f"{owner}.{name}"
        case _:
            return None


def imports_of(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every module or name imported, as line and dotted name: `from a import b` gives `a.b`."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                for alias in aliases:
                    yield alias.lineno, alias.name
            case ast.ImportFrom(module=str(module), level=0, names=aliases):
                for alias in aliases:
                    yield alias.lineno, f"{module}.{alias.name}"
            case _:
                pass
