"""The one passage from Trio to asyncio libraries, on trio-asyncio 0.16.

`open_bridge` is entered once, near the root of the process; `run_asyncio` may then be called by any task below it.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, ParamSpec, Protocol, TypeVar, cast

import trio_asyncio  # pyright: ignore[reportMissingTypeStubs]

from nursery.groups import unwrapped
from nursery.naming import name_of

P = ParamSpec("P")
T = TypeVar("T")


class BridgeClosed(Exception):
    """`run_asyncio` was called where no bridge is open. Enter `open_bridge()` above the caller."""


class ForeignCancelled(Exception):
    """The asyncio side cancelled the work; no Trio scope had asked for it. `__cause__` is the CancelledError.

    What the work had done by then is unknown.
    """


class _Loop(Protocol):
    def is_running(self) -> bool: ...
    def create_task(self, coro: Coroutine[Any, Any, T]) -> "asyncio.Task[T]": ...


# trio-asyncio carries no types: these three names are all that is used of it.
_untyped = cast("Any", trio_asyncio)
_open_loop = cast("Callable[[], AbstractAsyncContextManager[object]]", _untyped.open_loop)
_current_loop = cast("ContextVar[_Loop | None]", _untyped.current_loop)
_run_aio_future = cast("Callable[[asyncio.Future[Any]], Awaitable[Any]]", _untyped.run_aio_future)


class _foreign_cancellation_named:  # noqa: N801 - reads as a statement
    """Turns a CancelledError into ForeignCancelled. Our own cancellation has another type and passes."""

    __slots__ = ("_fn",)

    def __init__(self, fn: Callable[..., object]) -> None:
        self._fn = fn

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, asyncio.CancelledError):
            raise ForeignCancelled(
                f"{name_of(self._fn)} was cancelled from the asyncio side, not by us: what it did is unknown."
            ) from error


@asynccontextmanager
async def open_bridge() -> AsyncGenerator[None]:
    """Keep an asyncio loop running inside this Trio task.

    Leaving cancels the asyncio tasks that remain and waits for them. An error of the body leaves bare.
    """
    with unwrapped():
        async with _open_loop():
            yield


async def run_asyncio(fn: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run an asyncio coroutine function from Trio and return its result.

    Cancelling the Trio scope cancels the asyncio task and waits until its own cleanup has ended; a task that
    finishes in spite of the cancellation returns its result. A group of one exception is raised as that exception.

    Raises:
        BridgeClosed: no bridge is open above the caller.
        ForeignCancelled: the task ended cancelled, and not by the caller's Trio scope. A bare
            `asyncio.CancelledError` is a BaseException that would take the whole nursery down.
    """
    loop = _current_loop.get()
    if loop is None or not loop.is_running():
        raise BridgeClosed(f"{name_of(fn)} needs asyncio, but no bridge is open here: enter open_bridge() above it.")
    with _foreign_cancellation_named(fn), unwrapped():
        return await _run_aio_future(loop.create_task(_call(fn, *args, **kwargs)))


async def _call(fn: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    # Not `fn(...)` in the caller: libraries look up the running loop while they build their awaitable.
    return await fn(*args, **kwargs)
