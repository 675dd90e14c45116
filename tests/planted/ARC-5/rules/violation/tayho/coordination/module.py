"""An application file whose declarations are shared."""

from enum import Enum
from typing import TypeAlias

from storage.queries import many, one

RETRY_MAX = 5  # breaks ARC-5
Verdict: TypeAlias = "Ended | None"  # breaks ARC-5
CLAIM = many("coordination/jobs.claim")
LOST = one("coordination/jobs.lost")  # breaks ARC-5
COMPUTED = one("coordination/" + "jobs.find")  # breaks ARC-5


class Ended(Enum):  # breaks ARC-5
    """How it ended."""

    WELL = "well"


class Coordination:
    """The face."""

    async def tidy(self, connection, noun: str) -> None:
        await connection.execute("VACUUM coordination.jobs")  # breaks ARC-5
        await connection.fetch(f"select * from coordination.{noun}")  # breaks ARC-5
        statement = "DELETE FROM coordination.jobs WHERE job_id = $1"  # breaks ARC-5
        other = "with due as (select 1) select * from due"  # breaks ARC-5
        await connection.execute("COMMIT")  # breaks ARC-5
        await connection.run(statement, other)
