"""REDIS_URL, read strictly: what redis-py would misread in silence is refused here. Pure."""

import re
from collections.abc import Mapping
from typing import Any, Final, cast
from urllib.parse import parse_qs, urlencode, urlsplit

from attrs import field, frozen
from redis.asyncio.connection import parse_url

from storage.errors import StorageError

FORMS: Final = (
    "redis://[user:password@]host[:port][/db], rediss://… for TLS, unix://[user:password@]/path?db=0, "
    "redis+sentinel://[user:password@]host[:port],host…/service[/db], or redis+cluster://[user:password@]host[:port],…"
)
REDIS_PORT: Final = 6379
SENTINEL_PORT: Final = 26379
PORT_MAX: Final = 65_535

# Everything else that redis-py takes from a query would override what the connection is built on: a socket timeout
# below the blocking time, another reply decoding, silent retries.
_TLS_OPTIONS: Final = frozenset(
    {
        "ssl_ca_certs",
        "ssl_ca_path",
        "ssl_certfile",
        "ssl_cert_reqs",
        "ssl_check_hostname",
        "ssl_keyfile",
        "ssl_password",
    }
)
_DATABASE_OPTION: Final = "db"
_SENTINEL_USERNAME: Final = "sentinel_username"
_SENTINEL_PASSWORD: Final = "sentinel_password"  # noqa: S105 - the name of an option

_SEVERAL = re.compile(
    r"(?P<scheme>rediss?)\+(?P<form>sentinel|cluster)://(?:(?P<credentials>[^/?#]*)@)?(?P<hosts>[^/?#@]*)"
    r"(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?"
)
_HOST = re.compile(r"(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::(?P<port>[0-9]{1,5}))?")
_SERVICE_PATH = re.compile(r"/(?P<service>[A-Za-z0-9._-]+)(?P<database>/[0-9]+)?")

# Host and TCP port.
Address = tuple[str, int]


class RedisUrlInvalid(StorageError):
    """The Redis URL cannot be used. The message says why and never repeats the URL, which may hold a password."""


@frozen
class RedisTarget:
    """Where Redis is: one server."""

    # Without credentials: for messages and logs.
    shown: str
    # What redis-py's connections are built from.
    settings: Mapping[str, Any] = field(repr=False)


@frozen
class SentinelTarget(RedisTarget):
    """Where Redis is: at the master that these sentinels name. `settings` are the master's, without host and port."""

    sentinels: tuple[Address, ...]
    service: str
    sentinel_settings: Mapping[str, Any] = field(repr=False)


@frozen
class ClusterTarget(RedisTarget):
    """Where Redis is: on the masters of a cluster, which these nodes know. `settings` are without host and port."""

    nodes: tuple[Address, ...]


def parse_redis_url(url: str) -> RedisTarget:
    """Read a Redis URL.

    Raises:
        RedisUrlInvalid: another scheme, no host or path, a database that is no number, an unknown option.
    """
    # Where user and password hold such a sign unescaped, the @ comes after it, and their parts pass for a host.
    if "#" in url or "@" in url.partition("?")[2]:
        raise RedisUrlInvalid(f"The Redis URL holds a # or an @ where none may be. Expected {FORMS}.")
    several = _SEVERAL.fullmatch(url)
    if several is None:
        return _parse_single(url)
    return _parse_sentinel(several) if several["form"] == "sentinel" else _parse_cluster(several)


def is_cluster_url(url: str) -> bool:
    """Whether a URL that was read without refusal names a cluster."""
    several = _SEVERAL.fullmatch(url)
    return several is not None and several["form"] == "cluster"


def shown_address(address: Address) -> str:
    """As people write it: a colon in the host asks for brackets."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _parse_single(url: str) -> RedisTarget:
    try:
        parts = urlsplit(url)
        port = parts.port or REDIS_PORT
        settings = cast("dict[str, Any]", parse_url(url))
    except ValueError:
        # The message of urlsplit quotes what it could not read, which may be part of a password.
        raise RedisUrlInvalid(f"The Redis URL cannot be read. Expected {FORMS}.") from None
    _check_options(parts.query, _TLS_OPTIONS | {_DATABASE_OPTION})
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


def _parse_sentinel(url: re.Match[str]) -> SentinelTarget:
    _check_options(url["query"] or "", _TLS_OPTIONS | {_SENTINEL_USERNAME, _SENTINEL_PASSWORD})
    sentinels = _addresses(url["hosts"], SENTINEL_PORT)
    path = _SERVICE_PATH.fullmatch(url["path"])
    if path is None:
        raise RedisUrlInvalid(f"The Redis URL names no service, or a database that is no number. Expected {FORMS}.")
    options = _options(url["query"] or "")
    own = {"username": options.pop(_SENTINEL_USERNAME, None), "password": options.pop(_SENTINEL_PASSWORD, None)}
    if own["username"] and not own["password"]:
        raise RedisUrlInvalid(f"The Redis URL sets {_SENTINEL_USERNAME} without {_SENTINEL_PASSWORD}.")
    master = _settings(url["scheme"], url["credentials"], path["database"] or "", options)
    sentinel = _settings(url["scheme"], None, "", options)
    shown = ", ".join(map(shown_address, sentinels))
    return SentinelTarget(
        shown=f"master {path['service']} of sentinels {shown} database {master.get('db', 0)}",
        settings=master,
        sentinels=sentinels,
        service=path["service"],
        sentinel_settings={**sentinel, **{name: value for name, value in own.items() if value}},
    )


def _parse_cluster(url: re.Match[str]) -> ClusterTarget:
    _check_options(url["query"] or "", _TLS_OPTIONS)
    if url["path"] not in {"", "/"}:
        raise RedisUrlInvalid(f"The Redis URL has a path, and a cluster has no databases to choose. Expected {FORMS}.")
    nodes = _addresses(url["hosts"], REDIS_PORT)
    settings = _settings(url["scheme"], url["credentials"], "", _options(url["query"] or ""))
    return ClusterTarget(f"cluster of {', '.join(map(shown_address, nodes))}", settings, nodes)


def _addresses(hosts: str, port_default: int) -> tuple[Address, ...]:
    """The listed servers, each once, in order."""
    found: list[Address] = []
    for text in hosts.split(","):
        host = _HOST.fullmatch(text)
        if host is None or not 0 < int(host["port"] or port_default) <= PORT_MAX:
            raise RedisUrlInvalid(f"The Redis URL names no host, or one that cannot be. Expected {FORMS}.")
        found.append((host["address"] or host["name"], int(host["port"] or port_default)))
    return tuple(dict.fromkeys(found))


def _settings(scheme: str, credentials: str | None, path: str, options: Mapping[str, str]) -> dict[str, Any]:
    """What redis-py makes of credentials, database and options, without host and port."""
    user = "" if credentials is None else f"{credentials}@"
    try:
        settings = cast("dict[str, Any]", parse_url(f"{scheme}://{user}host{path}?{urlencode(options)}"))
    except ValueError:
        raise RedisUrlInvalid(f"The Redis URL cannot be read. Expected {FORMS}.") from None
    del settings["host"]
    return settings


def _check_options(query: str, allowed: frozenset[str]) -> None:
    unknown = sorted(parse_qs(query, keep_blank_values=True).keys() - allowed)
    if unknown:
        raise RedisUrlInvalid(f"The Redis URL sets {', '.join(unknown)}; it may only set {', '.join(sorted(allowed))}.")


def _options(query: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(query).items()}
