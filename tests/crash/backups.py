"""Backups as operators take them: `pg_dump` and `pg_restore` from the binaries of the very server."""

from __future__ import annotations

from pathlib import Path

import trio

from tests.services.postgres import binaries


async def dumped(database_url: str, file: Path, *options: str) -> Path:
    """The whole database in `file`, by `pg_dump` with these options."""
    command = [str(binaries() / "pg_dump"), *options, f"--file={file}", f"--dbname={database_url}"]
    await trio.run_process(command, capture_stderr=True)
    return file


async def restored(file: Path, database_url: str) -> None:
    """Fill an empty database from a dump in the custom format."""
    command = [str(binaries() / "pg_restore"), "--exit-on-error", f"--dbname={database_url}", str(file)]
    await trio.run_process(command, capture_stderr=True)
