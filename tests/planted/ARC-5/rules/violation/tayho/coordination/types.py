"""Types with logic."""

from attrs import frozen


@frozen
class Job:
    """A job."""

    attempts: tuple[int, ...]

    def spend(self) -> "Job":  # breaks ARC-5
        return Job((*self.attempts, len(self.attempts)))

    @property
    def total(self) -> int:  # breaks ARC-5
        total = 0
        for attempt in self.attempts:
            total += attempt
        return total

    async def load(self) -> None:  # breaks ARC-5
        await self.source()


def parse(text: str) -> Job:  # breaks ARC-5
    return Job((int(text),))
