"""REDIS_URL, read strictly: what redis-py would misread in silence is refused here. Pure."""

from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from attrs import field, frozen
from redis.asyncio.connection import parse_url

from storage.errors import StorageError

FORMS = "redis://[user:password@]host[:port][/db], rediss://… for TLS, or unix://[user:password@]/path?db=0"
# Everything else that redis-py takes from a query would override what the connection is built on: a socket timeout
# below the blocking time, another reply decoding, silent retries.
_OPTIONS = frozenset(
    {
        "db",
        "ssl_ca_certs",
        "ssl_ca_path",
        "ssl_certfile",
        "ssl_cert_reqs",
        "ssl_check_hostname",
        "ssl_keyfile",
        "ssl_password",
    }
)


class RedisUrlInvalid(StorageError):
    """The Redis URL cannot be used. The message says why and never repeats the URL, which may hold a password."""


@frozen
class RedisTarget:
    """Where Redis is."""

    # Without credentials: for messages and logs.
    shown: str
    # What redis-py's connection pool is built from.
    settings: Mapping[str, Any] = field(repr=False)


def parse_redis_url(url: str) -> RedisTarget:
    """Read a Redis URL.

    Raises:
        RedisUrlInvalid: another scheme, no host or path, a database that is no number, an unknown option.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or 6379
        settings = cast("dict[str, Any]", parse_url(url))
    except ValueError:
        # The message of urlsplit quotes what it could not read, which may be part of a password.
        raise RedisUrlInvalid(f"The Redis URL cannot be read. Expected {FORMS}.") from None
    unknown = sorted(parse_qs(parts.query, keep_blank_values=True).keys() - _OPTIONS)
    if unknown:
        raise RedisUrlInvalid(
            f"The Redis URL sets {', '.join(unknown)}; it may only set {', '.join(sorted(_OPTIONS))}."
        )
    if parts.scheme == "unix":
        if not parts.path:
            raise RedisUrlInvalid(f"The Redis URL names no socket path. Expected {FORMS}.")
        return RedisTarget(f"{parts.path} database {settings.get('db', 0)}", settings)
    if not parts.hostname:
        raise RedisUrlInvalid(f"The Redis URL names no host. Expected {FORMS}.")
    # redis-py reads "/abc" as database 0 and "/1/2" as database 12.
    database = parts.path.removeprefix("/")
    if database and not (database.isascii() and database.isdigit()):
        raise RedisUrlInvalid(f"The Redis URL's path is no database number. Expected {FORMS}.")
    return RedisTarget(f"{parts.hostname}:{port} database {settings.get('db', 0)}", settings)
