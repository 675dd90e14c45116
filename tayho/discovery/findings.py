"""The findings of a (chain, environment), for a person's eyes."""

from __future__ import annotations

from storage.database import Database
from tayho.discovery import store
from tayho.discovery.types import FindingRecord


class FindingReader:
    """Reads what scanners have found; needs no chain and no queue."""

    def __init__(self, database: Database, chain_id: int, environment: str) -> None:
        self._database = database
        self._chain_id = chain_id
        self._environment = environment

    async def newest(self, count_max: int) -> list[FindingRecord]:
        """At most so many, the newest first. Raises StorageError."""
        async with self._database.connection() as connection:
            rows = await store.NEWEST_FINDINGS(connection, self._chain_id, self._environment, count_max)
        return [store.finding_of(row) for row in rows]
