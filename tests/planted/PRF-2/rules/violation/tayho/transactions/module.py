"""Durable effects without names."""

from tayho.kernel.steps import step
from tayho.transactions.store import MARK


class Journal:
    """Effects."""

    async def persist(self) -> None:
        step("journal.after_sign")
        await self.sign()
        async with self.database.transaction() as connection:  # breaks PRF-2
            await MARK(connection)
        await self.sign()
        step("journal.after_persist")

    async def mark(self) -> None:
        async with self.database.connection() as connection:  # breaks PRF-2
            await MARK(connection)

    async def send(self, queue) -> None:
        await self._send(queue)

    async def _send(self, queue) -> None:
        for delivery in queue:
            await queue.complete_many([delivery])  # breaks PRF-2

    async def again(self) -> None:
        async with self.database.transaction() as connection:
            await MARK(connection)
        step("journal.after_sign")  # breaks PRF-2

    async def unlisted(self) -> None:
        async with self.database.transaction() as connection:
            await MARK(connection)
        step("journal.after_nothing")  # breaks PRF-2
