"""Which process an operator means by an instance's name, and whether it may be drained or undrained: pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from attrs import frozen

from tayho.coordination.control.errors import (
    AnotherProcess,
    InstanceAmbiguous,
    InstanceGone,
    InstanceStopping,
    InstanceUnknown,
)

# A process beats each five seconds, and may be slow.
SILENT_SECONDS = 30


@frozen
class InstanceSeen:
    """One process that runs, or ran, under a name."""

    worker_id: UUID
    instance_id: str
    roles: tuple[str, ...]
    host: str
    process_id: int
    started_at: datetime
    draining: bool
    drain_asked_at: datetime | None
    drained_at: datetime | None
    stopping_at: datetime | None
    stopped_at: datetime | None
    heartbeat_age_seconds: float

    @property
    def is_alive(self) -> bool:
        return self.stopped_at is None and self.heartbeat_age_seconds < SILENT_SECONDS


def to_drain(instance: str, found: Sequence[InstanceSeen]) -> InstanceSeen:
    """The one process that lives under the name. Raises InstanceUnknown, InstanceGone, InstanceAmbiguous."""
    if not found:
        raise InstanceUnknown(instance)
    alive = [one for one in found if one.is_alive]
    if not alive:
        raise InstanceGone(instance, found[0].worker_id, found[0].heartbeat_age_seconds)
    if len(alive) > 1:
        raise InstanceAmbiguous(instance, [one.worker_id for one in alive])
    return alive[0]


def to_undrain(instance: str, found: Sequence[InstanceSeen]) -> InstanceSeen:
    """The one process that lives under the name, if it is the one that was drained, or none ever was.

    A process that was restarted under the name of a drained one takes work already: whoever undrains it means one that
    is gone, and must hear of that. Raises as `to_drain`, AnotherProcess, InstanceStopping.
    """
    alive = to_drain(instance, found)
    if alive.stopping_at is not None:
        raise InstanceStopping(instance, alive.worker_id)
    earlier = next((one for one in found if one.drain_asked_at is not None and one is not alive), None)
    if not alive.draining and earlier is not None:
        raise AnotherProcess(instance, alive.worker_id, alive.started_at, earlier.worker_id)
    return alive
