"""Makes a login that may do what is said of it here and nothing else, each time anew (OPS-2)."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final

from attrs import field, frozen

from storage.connection import Connection
from storage.queries import many, scalar
from storage.scram import scram_verifier

_is_own = scalar("storage/logins.is_own")
_creation = scalar("storage/logins.creation")
_password = scalar("storage/logins.password")
_attributes = many("storage/logins.attributes")
_memberships = many("storage/logins.memberships")
_owned = many("storage/logins.owned")
_revocations = many("storage/logins.revocations")
_grants = many("storage/logins.grants")
_row_rules = many("storage/logins.row_rules")

_NAMED_MAX: Final = 5


class LoginRefused(Exception):
    """A login that cannot be one of ours as it is. Nothing of it was changed."""


@frozen
class RowRule:
    """A policy: on which rows of a table a command may work, as SQL conditions. None where there is none to say."""

    name: str
    table: str
    command: str
    sees: str | None
    makes: str | None

    def digest(self, login: str) -> str:
        """What tells this rule from another: the policy's comment. Of a condition the server keeps no text."""
        parts = (login, self.command, self.sees or "-", self.makes or "-")
        return sha256("\n".join(parts).encode()).hexdigest()


@frozen
class Login:
    """A login by name, and all that it may do in this database.

    `tables` has the privileges of each table, such as `SELECT, INSERT` or `SELECT (job_id, state)`; `routines` are the
    functions that it may call itself.
    """

    name: str
    password: str = field(repr=False)
    tables: Mapping[str, str]
    routines: Sequence[str] = ()
    row_rules: Sequence[RowRule] = ()


async def make_login(tx: Connection, login: Login) -> None:
    """Create the login or bring it to what is said, in the caller's transaction.

    The password is turned into its SCRAM verifier here, so that it is in no statement.

    Raises:
        LoginRefused: it is the login of this connection, inherits from a role or owns something.
        PasswordRefused: the password cannot be used.
        Refused: this connection's login may not do it.
    """
    if await _is_own(tx, login.name):
        raise LoginRefused(f"{login.name} is the login that migrates: give the process a login of its own")
    verifier = scram_verifier(login.password)
    creation = await _creation(tx, login.name)
    if creation is not None:
        await tx.execute(creation)
    await _refuse_more_than_its_own(tx, login.name)
    await tx.execute(await _password(tx, login.name, verifier))
    for row in await _attributes(tx, login.name):
        # One that it has not is left unsaid: only a superuser may say some of them at all.
        if row["has"]:
            await tx.execute(row["statement"])
    tables, privileges = list(login.tables), list(login.tables.values())
    rules = login.row_rules
    for rows in (
        await _revocations(tx, login.name),
        await _grants(tx, login.name, privileges, tables, list(login.routines)),
        await _row_rules(
            tx,
            login.name,
            [rule.name for rule in rules],
            [rule.table for rule in rules],
            [rule.command for rule in rules],
            [rule.sees for rule in rules],
            [rule.makes for rule in rules],
            [rule.digest(login.name) for rule in rules],
        ),
    ):
        for row in rows:
            await tx.execute(row["statement"])


async def memberships_of(connection: Connection, name: str) -> list[str]:
    """The roles that a login is a member of."""
    return [str(row["role"]) for row in await _memberships(connection, name)]


async def owned_by(connection: Connection, name: str) -> list[str]:
    """What a login owns, the first few, as PostgreSQL describes it."""
    return [str(row["object"]) for row in await _owned(connection, name)]


async def _refuse_more_than_its_own(tx: Connection, name: str) -> None:
    """What is inherited or owned cannot be taken away by grants. It is not ours to undo: a person decides."""
    roles = await memberships_of(tx, name)
    if roles:
        raise LoginRefused(f"{name} is a member of {_listed(roles)}: REVOKE that first, it would inherit from there")
    objects = await owned_by(tx, name)
    if objects:
        raise LoginRefused(f"{name} owns {_listed(objects)}: give that to another owner first (REASSIGN OWNED)")


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED_MAX
    return ", ".join(names[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
