"""What an identifier says, word by word: the rules about money and keys go by names."""

import ast


def words(identifier: str) -> tuple[str, ...]:
    """The lower-case words of a snake_case or UPPER_CASE identifier."""
    return tuple(word for word in identifier.lower().split("_") if word)


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
