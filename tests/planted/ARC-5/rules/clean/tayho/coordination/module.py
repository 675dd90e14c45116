"""An application file whose declarations are its own."""

from enum import Enum

from storage.queries import command, many

from tayho.coordination.types import Job

_PAGE = 100
CLAIM = many("coordination/jobs.claim")
END = command("coordination/jobs.end")


class Verdict(Enum):
    """What begin() answers; the worker alone takes it."""

    BEGUN = "begun"


class Coordination:
    """The face. Select a job from the queue: this is prose."""

    async def claim(self, connection) -> list[Job]:
        """Claim a page of jobs."""
        log.info("delete from the queue")
        if not connection:
            raise RuntimeError("update the schema set first")
        return [Job.of(row) for row in await CLAIM(connection, _PAGE)]


HELP = "Show jobs"
EVENT = "commit"
KIND = "select"
PROSE = "Select a job from the list."
