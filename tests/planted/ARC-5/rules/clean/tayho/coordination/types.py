"""Values with small answers."""

from typing import Protocol

from attrs import frozen


@frozen
class Job:
    """A job."""

    attempts: tuple[int, ...]

    @property
    def attempts_spent(self) -> int:
        """How many attempts were begun."""
        return len(self.attempts)

    @classmethod
    def of(cls, row: dict[str, int]) -> "Job":
        """A job from its row."""
        return cls((row["attempt"],))

    def __str__(self) -> str:
        return f"job of {self.attempts_spent}"


class Queue(Protocol):
    """What coordination needs of a queue."""

    async def put(self, job: Job) -> None:
        """Put a job."""
        ...
