"""A redis-server of a test's own, which the test may freeze, kill and start again."""

import contextlib
import signal
import socket
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import hiredis
import trio
import trustme

from tests.waiting import until


class RedisProcess:
    """One redis-server on a port of the loopback interface and on a unix socket, without persistence."""

    def __init__(self, directory: Path, options: tuple[str, ...]) -> None:
        self.directory = directory
        self.port = free_port()
        self.socket = directory / "redis.sock"
        self.file = directory / "redis.conf"
        self.options = options
        self._process: trio.Process | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    @property
    def servers(self) -> "tuple[RedisProcess, ...]":
        """Itself: as the forms of several servers name theirs."""
        return (self,)

    async def ask(self, *words: str | int) -> Any:
        """The reply to one command on a connection of its own; texts as str. Raises hiredis.ReplyError."""
        request = b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in (str(each).encode() for each in words))
        replies = hiredis.Reader(encoding="utf-8")
        async with await trio.open_unix_socket(self.socket) as stream:
            await stream.send_all(b"*%d\r\n%b" % (len(words), request))
            # False is no reply of RESP2: the reader has it for "not yet whole".
            while (reply := replies.gets()) is False:
                replies.feed(await stream.receive_some())
        if isinstance(reply, hiredis.ReplyError):
            raise reply
        return reply

    async def blocked_clients(self) -> int:
        """How many clients it holds in a blocking command."""
        info: str = await self.ask("INFO", "clients")
        [line] = [line for line in info.splitlines() if line.startswith("blocked_clients:")]
        return int(line.partition(":")[2])

    async def start(self) -> None:
        """Start it and return once it answers."""
        command = ["redis-server", str(self.file), "--bind", "127.0.0.1", "--port", str(self.port),
                   "--unixsocket", str(self.socket), "--save", "", "--dir", str(self.directory),
                   "--loglevel", "warning", *self.options]  # fmt: skip
        with (self.directory / "log").open("ab") as log:
            self._process = await trio.lowlevel.open_process(command, stdin=None, stdout=log, stderr=log)
        await until(self._answers, seconds=20, what=f"redis-server on port {self.port}")

    async def kill(self) -> None:
        """SIGKILL: everything in memory is gone, and every connection is reset."""
        if self._process is not None:
            self._process.kill()
            with trio.CancelScope(shield=True):
                await self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """Stop it in its tracks: connections stay open and nothing answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    async def _answers(self) -> bool:
        with contextlib.suppress(OSError):
            async with await trio.open_unix_socket(self.socket) as stream:
                await stream.send_all(b"PING\r\n")
                return (await stream.receive_some(100)) != b""
        return False


@asynccontextmanager
async def running_redis(*options: str, configuration: str = "") -> AsyncGenerator[RedisProcess]:
    """A started redis-server, gone afterwards. It may write into its configuration file, as a sentinel does."""
    with tempfile.TemporaryDirectory(prefix="tayho-redis-") as directory:
        process = RedisProcess(Path(directory), options)
        process.file.write_text(configuration)
        try:
            await process.start()
            yield process
        finally:
            await process.kill()


def tls_options(folder: Path, port: int) -> list[str]:
    """What makes a server speak TLS on this port, under an authority of its own: `folder`/ca.pem."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    options = ["--tls-port", str(port), "--tls-auth-clients", "no"]
    for name, file in (("cert", "cert"), ("key", "key"), ("ca-cert", "ca")):
        options += [f"--tls-{name}-file", str(folder / f"{file}.pem")]
    return options


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
