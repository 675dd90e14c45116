"""How every connection to Redis is built, whichever server it leads to."""

from collections.abc import Mapping
from typing import Any, Final, cast

from redis.asyncio import ConnectionPool
from redis.asyncio.connection import SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from storage.redis_url import Address
from storage.redis_wire import Connection, Pool

HEALTH_CHECK_SECONDS: Final = 15


def new_pool(settings: Mapping[str, Any], *, connections_max: int, connect_seconds: float) -> Pool:
    """A pool of connections that wait for any reply as long as they are let, and never send anything twice."""
    pool = ConnectionPool(
        max_connections=connections_max,
        # No time limit per read: Exchange.run has the reason, and RedisServer the limit for the whole.
        socket_timeout=None,
        socket_connect_timeout=connect_seconds,
        health_check_interval=HEALTH_CHECK_SECONDS,
        # redis-py's default sends a command again when its reply is lost: a fetch would take two jobs.
        retry=Retry(NoBackoff(), 0),
        decode_responses=True,
        # A record with bytes that are no UTF-8 must come out as a damaged delivery, not break the whole fetch.
        encoding_errors="surrogateescape",
        # RESP2: the replies that bullmq's scripts and this package were measured with.
        protocol=2,
        client_name="tayho",
        **settings,
    )
    return cast("Pool", pool)


def new_connection(settings: Mapping[str, Any], address: Address, *, seconds: float) -> Connection:
    """A connection for a question or two, each of which takes `seconds` at most. It is the caller's to close."""
    pool = ConnectionPool(
        host=address[0],
        port=address[1],
        socket_timeout=seconds,
        socket_connect_timeout=seconds,
        retry=Retry(NoBackoff(), 0),
        decode_responses=True,
        protocol=2,
        **settings,
    )
    return cast("Connection", pool.make_connection())


def is_tls(settings: Mapping[str, Any]) -> bool:
    """Whether the settings ask for an encrypted connection."""
    return settings.get("connection_class") is SSLConnection
