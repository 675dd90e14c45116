"""How much of everything one run measures, and what tayho's replicas are set to."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, frozen


@frozen
class Sizes:
    """The amounts of one run."""

    # How long each side is kept busy.
    seconds: float = 60
    lanes: Sequence[int] = (1, 2, 4, 16)
    replicas: Sequence[int] = (1, 2)
    # Jobs that wait at any time while a replica is kept busy: never an empty queue.
    ahead: int = 1_500
    # The load under which the time from submission to broadcast is taken: far below what one lane can do.
    paced_per_second: int = 25
    paced_seconds: float = 10
    # Signed before the limit is taken; it ends when they have run out.
    presigned_per_second: int = 4_000
    presigned_seconds_max: float = 15
    # Sends in flight of a peer, over all of its accounts.
    in_flight: int = 256
    # SIGNER_LANE_DEPTH is 16 by default, which a node of one's own need not be spared: of one signer it then takes 16
    # transactions a block. Here it is what fills a block of one second, by lanes: depth_total / lanes, at most 1000.
    depth_total: int = 4_096
    # QUEUE_CONCURRENCY: handlers of each replica.
    concurrency: int = 512
    profile: bool = False

    def quick(self) -> Sizes:
        """The sizes of a run that only shows that everything works."""
        return evolve(
            self,
            seconds=2,
            lanes=(2,),
            replicas=(1,),
            ahead=200,
            paced_per_second=10,
            paced_seconds=1,
            presigned_per_second=200,
            in_flight=16,
        )

    @property
    def depth(self) -> dict[int, int]:
        """SIGNER_LANE_DEPTH by the number of lanes."""
        return {lanes: min(self.depth_total // lanes, 1_000) for lanes in self.lanes}
