"""Exception groups of one: Trio wraps even a single error of a nursery, and a seam takes it out again."""

from types import TracebackType
from typing import cast


def unwrap(error: BaseException) -> BaseException:
    """What is inside the groups of one around it: a bare exception, or the first group of several."""
    inner = error
    while isinstance(inner, BaseExceptionGroup):
        members = cast("BaseExceptionGroup[BaseException]", inner).exceptions
        if len(members) != 1:
            break
        inner = members[0]
    return cast("BaseException", inner)


class unwrapped:  # noqa: N801 - reads as a statement: `with unwrapped():`
    """`with unwrapped(): async with trio.open_nursery() ...` raises a lone error bare, and several as their group.

    The error keeps its own traceback, cause and context.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            return
        inner = unwrap(error)
        if inner is error:
            return
        context = inner.__context__
        try:
            raise inner
        finally:
            # The raise above made the group the context of its own member: a cycle that hides the true context.
            inner.__context__ = context
            del inner, error
