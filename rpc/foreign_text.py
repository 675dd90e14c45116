"""Text written by a stranger, made fit to be logged and printed."""

from __future__ import annotations


def printable(text: str, characters_max: int) -> str:
    """The text on one line, at most `characters_max` long, without control characters and lone surrogates.

    Answers of nodes reach logs and terminals through error messages; a line break forges a log line there, an
    escape sequence moves the cursor, a lone surrogate breaks the writer.
    """
    cut = text[:characters_max]
    shown = "".join(character if character.isprintable() else " " for character in cut)
    return shown + "…" if len(text) > characters_max else shown
