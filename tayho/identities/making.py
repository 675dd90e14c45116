"""Makes the logins of the processes, in one transaction: all are as they are said to be, or nothing has changed."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from attrs import field, frozen

from storage.database import Database
from storage.errors import Refused
from storage.logins import LoginRefused, make_login
from storage.scram import PasswordRefused
from tayho.identities.privileges import identities

_INSUFFICIENT_PRIVILEGE = "42501"


@frozen
class Credentials:
    """The name and password of a login, as the process that uses it has them in its DATABASE_URL."""

    name: str
    password: str = field(repr=False)


class IdentityRefused(Exception):
    """An identity that cannot be made as it is asked for. Nothing was changed."""


def credentials_of(identity: str, url: str) -> Credentials:
    """Name and password out of a PostgreSQL URL. Raises IdentityRefused where one is missing."""
    parts = urlsplit(url)
    if not parts.username or not parts.password:
        raise IdentityRefused(f"{identity}: the URL must name the login and its password, as the process will use them")
    return Credentials(unquote(parts.username), unquote(parts.password))


async def make_identities(url: str, wanted: Mapping[str, Credentials]) -> list[str]:
    """Create or bring to its privileges the login of each identity, by the login of `url`; gives their names.

    Raises:
        IdentityRefused: one login for two identities, or one that inherits, owns, or has an unusable password; or the
            migrating login may not make logins.
        StorageError: the server cannot be used.
    """
    names = [credentials.name for credentials in wanted.values()]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise IdentityRefused(f"each identity has a login of its own, and {', '.join(twice)} would be two")
    async with Database.open(url, pool_size=1, application_name="tayho identities") as database:
        try:
            async with database.transaction() as tx:
                for identity, privileges in identities().items():
                    if identity in wanted:
                        one = wanted[identity]
                        await make_login(tx, privileges.login(identity, one.name, one.password))
        except (LoginRefused, PasswordRefused) as error:
            raise IdentityRefused(str(error)) from error
        except Refused as error:
            if error.sqlstate != _INSUFFICIENT_PRIVILEGE:
                raise
            raise IdentityRefused(
                f"the migrating login may not make this login ({error.message}): it needs CREATEROLE, and to own the "
                "schemas; to take SUPERUSER, REPLICATION or BYPASSRLS away it must be a superuser"
            ) from error
    return names
