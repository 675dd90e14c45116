"""How a command ends: refusals as one clear line each, and exit codes that scripts can use."""

from __future__ import annotations

import functools
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import NoReturn, ParamSpec, TypeVar

import click
import trio

from nursery.groups import unwrapped
from nursery.supervise import TaskCrashed
from storage.errors import StorageError
from storage.migration_files import MigrationError
from tayho.config import ConfigurationRefused
from tayho.identities.making import IdentityRefused
from tayho.local.process import LocalProcessFailed, ToolMissing
from tayho.refusals import EnvironmentRefused

EXIT_FAILED = 1
EXIT_CONFIGURATION = 2
EXIT_ENVIRONMENT = 3
# The act is recorded and stands, and what it asks for is not there within the time given: a handler that still runs, a
# process that is not drained, a lane that still has transactions open.
EXIT_UNACKNOWLEDGED = 4

P = ParamSpec("P")
T = TypeVar("T")


def ends_clearly(command: Callable[P, T]) -> Callable[P, T]:
    """Turn what a command raises on purpose into lines on stderr and an exit code; anything else is a bug and shows."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return command(*args, **kwargs)
        except ConfigurationRefused as error:
            _end(EXIT_CONFIGURATION, "configuration", error.lines())
        except EnvironmentRefused as error:
            _end(EXIT_ENVIRONMENT, "environment", error.problems)
        except (ToolMissing, LocalProcessFailed, MigrationError, StorageError, IdentityRefused) as error:
            _end(EXIT_ENVIRONMENT, "environment", [str(error)])
        except TaskCrashed as error:
            _end(EXIT_FAILED, "crashed", [f"{error} Cause: {error.__cause__!r}"])

    return wrapped


def run_trio(fn: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """`trio.run`, with a group of one error raised as that error."""
    with unwrapped():
        return trio.run(functools.partial(fn, *args, **kwargs))


def _end(code: int, what: str, lines: Sequence[str]) -> NoReturn:
    for line in lines:
        click.echo(f"tayho: {what}: {line}", err=True)
    sys.exit(code)
