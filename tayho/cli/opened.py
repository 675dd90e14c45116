"""What a command needs open, and who says that it may."""

from __future__ import annotations

import getpass
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import click

from nursery.asyncio_bridge import open_bridge
from storage.database import Database
from tayho.config.database_url import database_url_from
from tayho.coordination.module import Deed

F = TypeVar("F", bound=Callable[..., Any])


@asynccontextmanager
async def opened_database() -> AsyncGenerator[Database]:
    """The database of DATABASE_URL. Raises ConfigurationRefused, StoreUnavailable."""
    async with (
        open_bridge(),
        Database.open(database_url_from(os.environ), pool_size=1, application_name="tayho cli") as database,
    ):
        yield database


def says_who(command: F) -> F:
    """The option that names the operator in the record."""
    told = "Who does this, for the record; your login name if not given."
    return click.option("--actor", default=_login_name, show_default=False, help=told)(command)


def names_operator(command: F) -> F:
    """The same for an act that takes something out of work: nobody is guessed (OPS-9)."""
    told = "Who does this, for the record."
    option = click.option("--actor", envvar="OPERATOR_ID", required=True, show_envvar=True, help=told)
    return option(command)


def deed_of(actor: str, reason: str = "") -> Deed:
    """Who and why, or a usage error that names what is wrong with either."""
    try:
        return Deed(actor, reason)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _login_name() -> str:
    try:
        return os.environ.get("USER") or getpass.getuser()
    except (KeyError, OSError):
        # A container's user may have no name at all.
        return f"uid {os.getuid()}"
