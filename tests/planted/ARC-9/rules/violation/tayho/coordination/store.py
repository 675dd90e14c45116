"""Binds the queries, and names states that nothing lists."""

from storage.queries import many

CLAIM = many("coordination/jobs.claim")
FINISH = many("coordination/jobs.finish")
ENQUEUE = many("coordination/jobs.enqueue")
ATTEMPTS = many("coordination/jobs.attempts")
LOST = many("coordination/jobs.lost")
TOLD = many("coordination/jobs.told")


def tell(row, state: str, lane_state: str) -> str:
    if row["state"] == "finished":  # breaks ARC-9
        return end(state="ended")  # breaks ARC-9
    if state in ("queued", "mined"):  # breaks ARC-9
        lane_state = "running"  # breaks ARC-9
    match row.state:
        case "dead" | "buried":  # breaks ARC-9
            return lane_state
    return state


def end(state: str) -> str:
    return state
