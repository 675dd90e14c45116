"""When a connection's kept plans are made anew: a plan made for a small table must not serve a large one for long."""

from typing import Final

# A plan costs about a millisecond, so for a hundred uses next to nothing; in a hundred uses of one connection a table
# grows by some ten thousand rows.
PLAN_USES_MAX: Final = 100


class PlanUses:
    """Counts how often each connection of a pool was used since its plans were made.

    PostgreSQL keeps a prepared statement's plan until its table is analysed, which on a burst may be a minute later. On
    a young system that plan walks a whole index, because there was hardly anything in it.
    """

    def __init__(self, connections_max: int) -> None:
        self._kept_max = 2 * connections_max
        # By the server's process, which outlives what the pool lends.
        self._uses: dict[int, int] = {}

    def is_worn(self, server_pid: int) -> bool:
        """Count one more use. True when the plans are to be made anew before it."""
        uses = self._uses.get(server_pid, 0) + 1
        if server_pid not in self._uses and len(self._uses) >= self._kept_max:
            # Of connections that are gone, most of them: to begin anew only costs a few plans.
            self._uses.clear()
        self._uses[server_pid] = 0 if uses > PLAN_USES_MAX else uses
        return uses > PLAN_USES_MAX
