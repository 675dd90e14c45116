"""From the environment and mounted files to texts, one for each variable that is set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

from tayho.config.errors import Problem
from tayho.config.kinds import quoted
from tayho.config.variable import Variable

# A text that long is a wrong file, or a device that never ends.
FILE_CHARACTERS_MAX = 1_000_000


@frozen
class Text:
    """A variable's text, and where it was found. The text may be a secret."""

    content: str = field(repr=False)
    source: str


@frozen
class Texts:
    """What is set. A variable that is set and could not be read is in `named` and not in `found`."""

    found: Mapping[str, Text]
    named: frozenset[str]
    problems: tuple[Problem, ...]


class _Unreadable(Exception):
    """A text that is set and cannot be taken. The message says what was found, and quotes no secret."""


def read_mounted(path: Path) -> str:
    """The text of a mounted secret. A byte order mark, which some editors leave, is no part of it."""
    with path.open(encoding="utf-8-sig") as file:
        return file.read(FILE_CHARACTERS_MAX + 1)


def read_texts(
    environ: Mapping[str, str], variables: Iterable[Variable[Any]], read_file: Callable[[Path], str]
) -> Texts:
    """The text of each variable that is set, directly or, for a secret, by the file that NAME_FILE names."""
    found: dict[str, Text] = {}
    named: set[str] = set()
    problems: list[Problem] = []
    for variable in variables:
        by_file = variable.is_masked and variable.file_name in environ
        if not by_file and variable.name not in environ:
            continue
        named.add(variable.name)
        if by_file and variable.name in environ:
            both = f"both {variable.name} and {variable.file_name}"
            problems.append(Problem(variable.name, "one of the two forms", both))
            continue
        name = variable.file_name if by_file else variable.name
        try:
            found[variable.name] = _from_file(environ[name], read_file) if by_file else _direct(environ[name])
        except _Unreadable as unreadable:
            expected = "the absolute path of a file with the text" if by_file else variable.kind.expected
            problems.append(Problem(name, expected, str(unreadable)))
    return Texts(found, frozenset(named), tuple(problems))


def _direct(content: str) -> Text:
    return Text(_usable(content), "environment")


def _from_file(named: str, read_file: Callable[[Path], str]) -> Text:
    # Only what is a path is ever quoted: people put the secret itself here, and no secret of ours begins with a slash.
    if not named.startswith("/"):
        raise _Unreadable(f"a text of {len(named)} characters that does not start with /")
    reason = ""
    content = ""
    try:
        content = read_file(Path(named))
    except OSError as error:
        reason = error.strerror or type(error).__name__
    except UnicodeDecodeError:
        reason = "its bytes are no UTF-8"
    except ValueError:
        reason = "the path cannot be opened"
    if len(content) > FILE_CHARACTERS_MAX:
        reason = f"it holds more than {FILE_CHARACTERS_MAX} characters"
    if reason:
        raise _Unreadable(f"{_shown_path(named)}: {reason}")
    return Text(_usable(content), f"file {_shown_path(named)}")


def _shown_path(path: str) -> str:
    return path if path.isprintable() and len(path) <= 255 else quoted(path)


def _usable(content: str) -> str:
    stripped = content.strip()
    if not stripped:
        # Taken for "unset", an empty DATABASE_URL would start a production process in local mode.
        raise _Unreadable("an empty text: set it, or take the variable away")
    if any("\ud800" <= character <= "\udfff" for character in stripped):
        raise _Unreadable("bytes that are no UTF-8")
    return stripped
