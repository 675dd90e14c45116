"""Every durable effect has a name beside it."""

from tayho.kernel.steps import step
from tayho.transactions.store import FIND, MARK


class Journal:
    """Effects."""

    async def persist(self) -> int:
        """A transaction, then its name, a guard in between."""
        async with self.database.transaction() as connection:
            marked = await MARK(connection)
        if not marked:
            return 0
        step("journal.after_persist")
        return await self._send()

    async def _send(self) -> int:
        """Leaves the name to its callers."""
        return await self.endpoint.send_raw_transaction(b"")

    async def send(self) -> None:
        """The name stands after the block that holds the effect."""
        for _ in range(2):
            await self._send()
        step("broadcast.after_send")

    async def mark_and_find(self) -> None:
        """An autocommit write has a name; a read needs none."""
        async with self.database.connection() as connection:
            await MARK(connection)
        step("journal.after_mark")
        async with self.database.connection() as connection:
            await FIND(connection)
