"""asyncpg's errors to ours: the one place that knows SQLSTATEs (PostgreSQL documentation, appendix A)."""

import re
from typing import Final, cast

from nursery.asyncio_bridge import ForeignCancelled
from nursery.cleanup import CleanupExpired
from storage import driver
from storage.errors import CommitUnknown, Conflict, Refused, SerializationLost, StorageError, StoreUnavailable

TRANSLATED: Final = (*driver.FOREIGN, ForeignCancelled, CleanupExpired)

_UNIQUE_OR_EXCLUSION: Final = {"23505", "23P01"}
# Serialization failure, deadlock, lock not available (NOWAIT, lock_timeout).
_RACE_LOST: Final = {"40001", "40P01", "55P03"}
_COMPLETION_UNKNOWN: Final = "40003"
_READ_ONLY: Final = "25006"
# Classes in which the server, not the statement, is at fault: connection, authorization, catalog name, resources,
# operator intervention (57014 among them: nobody here asked for that cancellation), system and internal error.
_SERVER_AT_FAULT: Final = ("08", "28", "3D", "53", "57", "58", "XX")
# Data exceptions, whose messages quote the value.
_VALUE_IN_MESSAGE: Final = "22"

# Only a statement that begins so is surely without effect when its reply is lost.
_READS: Final = re.compile(r"\s*(select|show|values|table)\b", re.IGNORECASE)
_ARGUMENT: Final = re.compile(r"query argument (\$\d+)")


class NotTheWriter(StoreUnavailable):
    """The server became read-only: a failover made it a standby, and every connection to it is stale."""


def may_write(sql: str) -> bool:
    """Whether a statement that commits by itself may have taken effect although its reply never came."""
    return _READS.match(sql) is None


def translated(error: Exception, *, connected: bool, commits: bool) -> StorageError | None:
    """What `error` means to the caller; None if it means a bug of ours and must pass as it is.

    `connected` is false once the connection is known to be closed. `commits` says that the statement ends a
    transaction, so that a lost reply leaves its outcome open.
    """
    if isinstance(error, driver.PostgresError):
        return _from_server(cast("driver.ServerError", error), error, commits=commits)
    if isinstance(error, driver.InterfaceError) and connected:
        return None
    return _lost(type(error).__name__, commits=commits)


def cause_of(error: Exception) -> Exception | None:
    """`error` as it may stand in a `from` clause: without the arguments, row values and URLs in asyncpg's texts."""
    if isinstance(error, ValueError) and not isinstance(error, OSError):
        return None
    if isinstance(error, driver.PostgresError):
        report = cast("driver.ServerError", error)
        if (report.sqlstate or "").startswith(_VALUE_IN_MESSAGE):
            return None
        report.detail = None
    return error


def _from_server(report: driver.ServerError, error: Exception, *, commits: bool) -> StorageError:
    state, constraint, message = report.sqlstate or "", report.constraint_name or "", report.args[0]
    if commits and _outcome_open(report, state):
        return _lost(f"{state} {message}", commits=True)
    if state in _UNIQUE_OR_EXCLUSION:
        return Conflict(constraint)
    if state in _RACE_LOST:
        return SerializationLost(f"another transaction won ({state} {message}): run the whole transaction again.")
    if state == _READ_ONLY:
        return NotTheWriter(f"PostgreSQL is read-only here ({message}): it is not the writer any more.")
    if state.startswith(_SERVER_AT_FAULT) or isinstance(error, driver.InvalidCachedStatement):
        return StoreUnavailable(f"PostgreSQL could not do the work now ({state} {message}).")
    if state.startswith(_VALUE_IN_MESSAGE):
        argument = _ARGUMENT.search(message)
        message = f"argument {argument[1]} does not fit its type" if argument else type(error).__name__
    return Refused(message, sqlstate=state, constraint=constraint)


def _outcome_open(report: driver.ServerError, state: str) -> bool:
    # The server answers ERROR only to a commit that it undid. FATAL and PANIC may come after the commit record was
    # written, and class 08 is asyncpg speaking for a server that said nothing.
    return report.severity_en in {"FATAL", "PANIC"} or state.startswith("08") or state == _COMPLETION_UNKNOWN


def _lost(why: str, *, commits: bool) -> StorageError:
    if commits:
        return CommitUnknown(f"the connection to PostgreSQL broke during a commit ({why}): read the work back by key.")
    return StoreUnavailable(f"the connection to PostgreSQL broke ({why}).")
