"""Binds the queries, and names listed states."""

from storage.queries import many

CLAIM = many("coordination/jobs.claim")
ENQUEUE = many("coordination/jobs.enqueue")
END_ATTEMPTS = many("coordination/jobs.end_attempts")
REPLAY = many("coordination/jobs.replay")


def tell(row, state: str, lane_state: str) -> str:
    """Compare listed states only."""
    if row["state"] == "completed" or state in ("queued", "dead"):
        lane_state = "open"
    return lane_state or "nothing"
