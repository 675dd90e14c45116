"""The official bullmq package, which carries no types: the only names of it that are used, typed here."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, cast

import bullmq.custom_errors as _errors  # pyright: ignore[reportMissingTypeStubs]
import bullmq.redis_connection as _connection  # pyright: ignore[reportMissingTypeStubs]
from bullmq import job as _job  # pyright: ignore[reportMissingTypeStubs]
from bullmq.backends import redis_backend as _backend  # pyright: ignore[reportMissingTypeStubs]

Work = Awaitable[Any]


class PackageJob(Protocol):
    """bullmq.job.Job: one record as the package sees it."""

    id: str
    opts: dict[str, Any]
    attempts: int
    attemptsMade: int  # noqa: N815
    finishedOn: int  # noqa: N815

    def moveToFailed(self, err: Exception, token: str) -> Work: ...  # noqa: N802


class PackageBackend(Protocol):
    """bullmq.backends.redis_backend.RedisBackend: every operation of a queue, over the connection it was given."""

    @property
    def qualifiedName(self) -> str: ...  # noqa: N802
    @property
    def keys(self) -> Mapping[str, str]: ...
    def addJob(self, job: PackageJob) -> Work: ...  # noqa: N802
    def getState(self, job_id: str) -> Work: ...  # noqa: N802
    def getCounts(self, types: Sequence[str]) -> Work: ...  # noqa: N802
    def moveToActive(self, token: str, opts: Mapping[str, object]) -> Work: ...  # noqa: N802
    def moveToCompleted(  # noqa: N802
        self, job: PackageJob, return_value: object, remove_on_complete: object, token: str, fetch_next: bool
    ) -> Work: ...
    def moveToDelayed(  # noqa: N802
        self, job_id: str, timestamp: int, delay: int, token: str, opts: Mapping[str, object]
    ) -> Work: ...
    def promote(self, job_id: str) -> Work: ...
    def changePriority(self, job_id: str, priority: int) -> Work: ...  # noqa: N802
    def moveStalledJobsToWait(self, max_stalled_count: int, stalled_interval: int) -> Work: ...  # noqa: N802
    def extendLocks(self, job_ids: Sequence[str], tokens: Sequence[str], duration: int) -> Work: ...  # noqa: N802


_untyped_errors = cast("Any", _errors)
_untyped_job = cast("Any", _job)
_untyped_backend = cast("Any", _backend)
_untyped_connection = cast("Any", _connection)

new_job = cast("Callable[[object, str, object, Mapping[str, object], str | None], PackageJob]", _untyped_job.Job)
decoded_options = cast("Callable[[dict[str, object]], dict[str, object]]", _untyped_job.optsFromJSON)
new_backend = cast("Callable[..., PackageBackend]", _untyped_backend.RedisBackend)
# Failing with it ends a record, whatever attempts remain.
unrecoverable = cast("Callable[[str], Exception]", _untyped_errors.UnrecoverableError)
script_files = cast("Mapping[str, str]", _untyped_connection.SCRIPT_DEFINITIONS)
load_script = cast("Callable[[str], str]", _untyped_connection.loadScript)
