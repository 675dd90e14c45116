"""TLS to PostgreSQL is what the URL asks for: a proven server, or none.

The embedded server speaks no TLS itself, so a front takes the client's SSLRequest and hands on what is inside
(PostgreSQL's frontend/backend protocol, "SSL Session Encryption").
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trio
import trustme

from nursery.asyncio_bridge import open_bridge
from storage.database import Database
from storage.errors import StoreUnavailable
from tests.services.postgres import PostgresServer

pytestmark = pytest.mark.services

SSL_REQUEST = (8).to_bytes(4, "big") + (80_877_103).to_bytes(4, "big")
CHUNK_BYTES = 65_536


@asynccontextmanager
async def tls_front(url: str, authority: trustme.CA) -> AsyncIterator[str]:
    """The same database behind a server that is 127.0.0.1 under the authority."""
    parts = urlsplit(url)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)

    async def serve(plain: trio.SocketStream) -> None:
        assert await plain.receive_some(len(SSL_REQUEST)) == SSL_REQUEST
        await plain.send_all(b"S")
        client = trio.SSLStream(plain, context, server_side=True, https_compatible=True)
        server = await trio.open_tcp_stream("127.0.0.1", parts.port or 5432)
        try:
            async with client, server, trio.open_nursery() as directions:
                directions.start_soon(pump, client, server, directions.cancel_scope)
                directions.start_soon(pump, server, client, directions.cancel_scope)
        except* trio.BrokenResourceError:
            # A client that does not believe the certificate hangs up in the handshake.
            pass

    async with trio.open_nursery() as front:
        listeners = await front.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        port = listeners[0].socket.getsockname()[1]
        yield parts._replace(netloc=f"{parts.username}:{parts.password}@127.0.0.1:{port}").geturl()
        front.cancel_scope.cancel()


async def pump(source: trio.abc.ReceiveStream, sink: trio.abc.SendStream, ended: trio.CancelScope) -> None:
    while data := await source.receive_some(CHUNK_BYTES):
        await sink.send_all(data)
    ended.cancel()


async def ask(url: str) -> int:
    opened = Database.open(url, pool_size=1, application_name="tests tls")
    async with opened as database, database.connection() as connection:
        return int(await connection.fetchval("SELECT 42"))


async def test_a_server_is_proven_by_its_authority(postgres_server: PostgresServer, tmp_path: Path) -> None:
    """Goal: nobody stands between us and the database. Method: verify-full under the right authority, under another
    one, by a name that the certificate does not have, and to a server that speaks no TLS."""
    authority, known, other = trustme.CA(), tmp_path / "known.pem", tmp_path / "other.pem"
    authority.cert_pem.write_to_path(known)
    trustme.CA().cert_pem.write_to_path(other)
    async with open_bridge(), tls_front(postgres_server.url, authority) as url:
        assert await ask(f"{url}?sslmode=verify-full&sslrootcert={known}") == 42
        for refused, words in (
            (f"{url}?sslmode=verify-full&sslrootcert={other}", "certificate verify failed"),
            (f"{url.replace('127.0.0.1', 'localhost')}?sslmode=verify-full&sslrootcert={known}", "localhost"),
            (f"{postgres_server.url}?sslmode=verify-full&sslrootcert={known}", "SSL"),
        ):
            with pytest.raises(StoreUnavailable, match=words) as error:
                await ask(refused)
            assert str(urlsplit(url).password) not in str(error.value)
