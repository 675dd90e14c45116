"""The filter options of a bulk operation, its preview and its confirmation."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import UUID

import click
from attrs import evolve
from rich.console import Console
from rich.table import Table

from tayho.cli.outcome import EXIT_FAILED
from tayho.coordination.module import JobFilter, Preview
from tayho.kernel.plain import plain
from tayho.kernel.roles import ROLES

F = TypeVar("F", bound=Callable[..., Any])


class Instant(click.ParamType[datetime]):
    """An ISO 8601 instant; UTC where it names no offset."""

    name = "instant"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is no ISO 8601 instant, such as 2026-01-31T12:00:00Z", param, ctx)
        return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


_OPTIONS = (
    click.option("--role", type=click.Choice(sorted(ROLES)), help="Only jobs of this role."),
    click.option("--kind", help="Only jobs of this kind."),
    click.option("--tag", help="Only jobs with this tag."),
    click.option("--limit-key", help="Only jobs of this limit key."),
    click.option("--error", "error_type", help="Only jobs whose last error is of this type."),
    click.option("--created-from", type=Instant(), help="Only jobs created at or after this instant."),
    click.option("--created-before", type=Instant(), help="Only jobs created before this instant."),
    click.option("--all", "is_all", is_flag=True, help="All jobs that the command may change."),
    click.option("--yes", "is_sure", is_flag=True, help="Do not ask."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
)


def takes_filter(command: F) -> F:
    """The options that say which jobs; they come as `options` to the command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def filter_of(job_ids: Sequence[UUID], options: Mapping[str, Any], *, is_all: bool) -> JobFilter | None:
    """The filter, or None where jobs are named. Raises UsageError where neither or both are given."""
    narrowed = {name: value for name, value in options.items() if value is not None}
    if bool(job_ids) + bool(narrowed) + is_all != 1:
        raise click.UsageError("name jobs, or narrow them by options, or take --all: one of the three")
    if job_ids:
        return None
    try:
        return JobFilter(**narrowed)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def as_previewed(which: JobFilter, preview: Preview) -> JobFilter:
    """The filter, closed at the moment of the preview: what came later was not shown."""
    if which.created_before is not None or preview.seen_at is None:
        return which
    return evolve(which, created_before=preview.seen_at)


def confirm(what: str, preview: Preview, *, is_sure: bool, as_json: bool) -> None:
    """Show what would be changed and go on only with consent; else exit 1, nothing changed."""
    if is_sure:
        return
    if as_json:
        click.echo(json.dumps({"preview": plain(preview), "done": None}))
    else:
        _show(what, preview)
    if as_json or not sys.stdin.isatty():
        click.echo("tayho: nothing was changed: add --yes to do it", err=True)
        sys.exit(EXIT_FAILED)
    if not click.confirm(f"{what.capitalize()} them?"):
        click.echo("tayho: nothing was changed", err=True)
        sys.exit(EXIT_FAILED)


def _show(what: str, preview: Preview) -> None:
    count = f"more than {preview.jobs}" if preview.is_more else str(preview.jobs)
    click.echo(f"To {what}: {count} jobs ({', '.join(f'{jobs} {kind}' for kind, jobs in preview.by_kind.items())})")
    table = Table("job", "kind", "state", "key", "created")
    for one in preview.sample:
        created = f"{one.created_at:%Y-%m-%d %H:%M:%S}"
        table.add_row(str(one.job_id), one.kind, one.state, one.idempotency_key, created)
    Console().print(table)
