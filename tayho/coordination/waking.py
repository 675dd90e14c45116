"""Telling the processes to look now (DLV-3): always after the commit, never what correctness rests on."""

from __future__ import annotations

import structlog

from storage.database import Database
from storage.errors import StorageError
from storage.queries import Command

log = structlog.get_logger("tayho.coordination")


async def wake(database: Database, notification: Command) -> None:
    """Send one notification. A lost one costs a poll or a heartbeat; an error would deny what is committed."""
    try:
        async with database.connection() as connection:
            await notification(connection)
    except StorageError as error:
        log.info("wake_lost", error=str(error))
