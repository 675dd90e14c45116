"""What can go wrong in PostgreSQL and Redis, one class per refusal. Foreign errors become these once, at the seam.

None of them carries a query argument or a row value: such a value may be a signature, a ciphertext or a session token.
"""


class StorageError(Exception):
    """Base of everything that storage raises on purpose."""


class StoreUnavailable(StorageError):
    """The server could not do the work now; nothing of it took effect. The same work may be tried again later."""


class ServerTooOld(StoreUnavailable):
    """The PostgreSQL server is below the oldest version that tayho runs on. Trying again does not help."""

    def __init__(self, found: str, required: int) -> None:
        super().__init__(f"PostgreSQL {found} is too old: version {required} or later is needed.")
        self.found = found
        self.required = required


class QueueUnavailable(StoreUnavailable):
    """Redis could not do the work now; nothing of it took effect."""


class CommitUnknown(StorageError):
    """The connection broke while a commit was under way: the work took effect wholly or not at all.

    Read it back by its key. Never send it again as new work.
    """


class ReplyLost(StorageError):
    """Redis may or may not have done what was asked: its answer did not arrive."""


class SerializationLost(StorageError):
    """Another transaction won a race (serialization failure, deadlock, lock not had in time). Nothing took effect.

    Run the whole transaction again.
    """


class Refused(StorageError):
    """The server refused the statement: a check, a foreign key, a trigger, a bad value, a missing privilege.

    `sqlstate` is PostgreSQL's five characters (TYnnn from our own triggers), `constraint` the name of the constraint
    or trigger that spoke, or "" where there is none.
    """

    def __init__(self, message: str, *, sqlstate: str, constraint: str = "") -> None:
        named = f", {constraint}" if constraint else ""
        super().__init__(f"PostgreSQL refused the statement ({sqlstate}{named}): {message}")
        self.message = message
        self.sqlstate = sqlstate
        self.constraint = constraint


class NotAnInteger(StorageError):
    """A numeric column or expression held a fraction, NaN or infinity: cast it in the SQL to the type that is meant."""


class Conflict(StorageError):
    """A row with this key is there already. `constraint` names the unique or exclusion constraint."""

    def __init__(self, constraint: str) -> None:
        super().__init__(f"a row with this key exists already (constraint {constraint}): read it and compare.")
        self.constraint = constraint
