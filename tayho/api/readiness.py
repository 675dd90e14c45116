"""Whether the process may be given work, and every reason why not (OPS-4)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog
from attrs import frozen

log = structlog.get_logger("tayho.api")


@frozen
class Reason:
    """One thing found by one check, in words for a person. It holds no secret: it is served to whoever asks."""

    check: str
    reason: str


@frozen
class Readiness:
    """Ready when there is no reason against it; warnings do not count."""

    reasons: tuple[Reason, ...] = ()
    warnings: tuple[Reason, ...] = ()

    @property
    def is_ready(self) -> bool:
        return not self.reasons


UNANSWERED = Readiness((Reason("readiness", "the checks gave no answer in time"),))


def never_raising(readiness: Callable[[], Awaitable[Readiness]]) -> Callable[[], Awaitable[Readiness]]:
    """The same checks, where a defect in them is one more reason and no end of the process."""

    async def checked() -> Readiness:
        try:
            return await readiness()
        except Exception as error:
            log.exception("readiness_failed")
            return Readiness((Reason("readiness", f"the checks failed: {type(error).__name__}"),))

    return checked


def told_only(refresh: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    """The same refresh of gauges, where a defect in it goes to the log and no further."""

    async def refreshed() -> None:
        try:
            await refresh()
        except Exception:
            log.exception("refresh_failed")

    return refreshed
