"""ARC-5, SQL side of Python: no statement is written in Python; every one stands in `sql/<room>/<noun>.sql`.

Refused are a literal handed to a method that runs SQL (`execute`, `fetch`, …), and any other literal that opens like a
statement and that PostgreSQL's own parser accepts as one. Docstrings are prose and are not looked at.
"""

import ast
import re
from collections.abc import Iterator

from pglast import parse_sql
from pglast.parser import ParseError

from tools.rules.house import Finding, House, Module
from tools.rules.names import identifier_of

RULE = "ARC-5"
RUNNERS = frozenset({"execute", "executemany", "fetch", "fetchrow", "fetchval", "prepare", "cursor"})
OPENING = re.compile(
    r"(?:\s|--[^\n]*\n)*"
    r"(?:(?i:select|insert\s+into|update|delete\s+from|with|create|alter|drop|truncate|merge\s+into)\s"
    r"|(?:SET|SHOW|LISTEN|UNLISTEN|NOTIFY|LOCK|COPY|VACUUM|ANALYZE|GRANT|REVOKE|REINDEX|START)\s)"
)
MEND = "write the statement in sql/<room>/<noun>.sql and bind it with storage.queries"


def check(house: House) -> Iterator[Finding]:
    for module in house.product:
        prose = _prose(module)
        run = {id(node): name for name, node in _handed_to_a_runner(module)}
        for node in module.nodes:
            if id(node) in prose or not isinstance(node, ast.Constant | ast.JoinedStr):
                continue
            text = _text(node)
            if id(node) in run:
                yield _finding(module, node, f"SQL text handed to {run[id(node)]}() in Python: {MEND}")
            elif text is not None and is_statement(text):
                yield _finding(module, node, f"SQL text in Python ({' '.join(text.split())[:40]}…): {MEND}")


def is_statement(text: str) -> bool:
    """Whether a text opens like a statement, in one case throughout its first word, and parses as one."""
    opening = OPENING.match(text)
    if opening is None or opening.group().split()[-1].istitle():
        return False
    try:
        return bool(parse_sql(text))
    except ParseError:
        return False


def _text(node: ast.Constant | ast.JoinedStr) -> str | None:
    """The text of a literal, a filled-in name standing for each placeholder of an f-string."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(str(part.value) if isinstance(part, ast.Constant) else "placeholder" for part in parts)
        case _:
            return None


def _handed_to_a_runner(module: Module) -> Iterator[tuple[str, ast.expr]]:
    for node in module.nodes:
        match node:
            case ast.Call(func=ast.Attribute(attr=name), args=[first, *_]) if name in RUNNERS:
                if isinstance(first, ast.JoinedStr) or (
                    isinstance(first, ast.Constant) and isinstance(first.value, str)
                ):
                    yield name, first
            case _:
                pass


def _prose(module: Module) -> set[int]:
    """Docstrings, the parts of f-strings (the whole is judged), and the texts of refusals and command help."""
    found: set[int] = set()
    for node in module.nodes:
        match node:
            case ast.Expr(value=ast.Constant() as text):
                found.add(id(text))
            case ast.JoinedStr(values=parts):
                found |= {id(part) for part in parts}
            case ast.Raise(exc=ast.Call(args=args)):
                found |= {id(arg) for arg in args}
            case ast.keyword(arg="help" | "short_help" | "epilog", value=value):
                found.add(id(value))
            case ast.Call(func=func, args=args) if identifier_of(func) in ("echo", "info", "debug", "warning", "error"):
                found |= {id(arg) for arg in args}
            case _:
                pass
    return found


def _finding(module: Module, node: ast.expr, message: str) -> Finding:
    return Finding(module.path, node.lineno, RULE, message)
