"""The adapters: bounded in size and time, whatever the other side does."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trio

from tayho.protocol.sources import http_json
from tayho.protocol.sources.errors import SourceForged, SourceSilent, SourceUnusable
from tayho.protocol.sources.http_json import ANSWER_BYTES_MAX, HttpJson
from tayho.protocol.sources.json_file import FILE_BYTES_MAX, JsonFile
from tayho.protocol.sources.reading import FeedReader
from tayho.protocol.sources.types import Observation
from tests.protocol.sources.answering import NOW, answering, feed, hang, http_answer
from tests.rpc.tls import authority_and_server, trusting

KEY = "v3aK9xkQ2mZp7TqLw1"


async def test_an_answer_is_fetched_whole() -> None:
    """Goal: the ordinary case. Method: a feed over a real server, of a length told and of one that is not."""
    async with answering() as server:
        server.answers({"value": 7, "at": NOW})
        reader = FeedReader(feed(server.url))
        assert await reader.read(NOW) == Observation(7, NOW)
        server.says(b'HTTP/1.1 200 OK\r\n\r\n{"value": 8, "at": %d}' % NOW)
        assert await reader.read(NOW) == Observation(8, NOW)


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        (http_answer(b"{}", status="404 Not Found"), SourceUnusable),
        (http_answer(b"", status="302 Found", headers="location: http://127.0.0.1:1/\r\n"), SourceUnusable),
        (http_answer(b" " * (ANSWER_BYTES_MAX + 1)), SourceUnusable),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (ANSWER_BYTES_MAX * 4), SourceUnusable),
        (http_answer(b"{}", headers="content-encoding: gzip\r\n"), SourceUnusable),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{}", SourceSilent),
        (b"SSH-2.0-OpenSSH_9.0\r\n", SourceSilent),
        (b"", SourceSilent),
    ],
    ids=["status", "redirect", "huge", "endless", "compressed", "cut short", "not HTTP", "closed"],
)
async def test_a_bad_answer_is_no_answer(raw: bytes, error: type[Exception]) -> None:
    """Goal: must-show 8. Method: one connection each, whose bytes are wrong in one way; nothing is asked twice."""
    async with answering() as server:
        server.says(raw)
        with pytest.raises(error):
            await HttpJson(server.url).fetch()
        assert server.connections == 1


async def test_silence_has_a_deadline_and_tells_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: a hanging and a dripping source cost their deadline; no message has the key of the URL. Method: a server
    that says nothing, one that sends a byte now and then, and a port where nobody is."""
    monkeypatch.setattr(http_json, "ANSWER_SECONDS_MAX", 0.3)

    async def drip(stream: trio.abc.Stream) -> None:
        await stream.send_all(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            await stream.send_all(b" ")
            await trio.sleep(0.05)

    async with answering() as server:
        for server.behave in (hang, drip):
            with trio.fail_after(5), pytest.raises(SourceSilent):
                await HttpJson(f"{server.url}/{KEY}").fetch()
    with pytest.raises(SourceSilent) as refused:
        await HttpJson(f"{server.url}/{KEY}").fetch()
    assert KEY not in str(refused.value)


async def test_only_a_pinned_server_is_believed() -> None:
    """Goal: a certificate that anybody's authority issued is not enough. Method: a server of a trusted authority, with
    its certificate pinned, with another one pinned, and of an authority that is not trusted."""
    authority, tls = authority_and_server()
    async with answering(tls) as server:
        server.answers({"value": 7, "at": NOW})
        shown = await _certificate_of(server.url, trusting(authority))
        pinned = HttpJson(server.url, (b"\0" * 32, hashlib.sha256(shown).digest()), trusting(authority))
        assert json.loads(await pinned.fetch()) == {"value": 7, "at": NOW}
        with pytest.raises(SourceForged):
            await HttpJson(server.url, (b"\0" * 32,), trusting(authority)).fetch()
        with pytest.raises(SourceSilent):
            await HttpJson(server.url, (hashlib.sha256(shown).digest(),)).fetch()


async def _certificate_of(url: str, tls: object) -> bytes:
    port = urlsplit(url).port
    assert port is not None
    stream = await trio.open_ssl_over_tcp_stream("127.0.0.1", port, ssl_context=tls, https_compatible=True)
    async with stream:
        await stream.do_handshake()
        return stream.getpeercert(binary_form=True)


def _large(path: Path) -> None:
    path.write_bytes(b" " * (FILE_BYTES_MAX + 1))


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda path: None, SourceSilent),
        (Path.mkdir, SourceUnusable),
        (os.mkfifo, SourceUnusable),
        (_large, SourceUnusable),
    ],
    ids=["missing", "folder", "pipe", "large"],
)
async def test_a_file_is_a_small_regular_file_or_nothing(
    tmp_path: Path, make: Callable[[Path], None], error: type[Exception]
) -> None:
    """Goal: no path holds the process or fills it. Method: each thing that may stand at a path, in bounded time."""
    path = tmp_path / "fact.json"
    make(path)
    with trio.fail_after(2), pytest.raises(error):
        await JsonFile(str(path)).fetch()


async def test_a_file_is_read_anew_each_time(tmp_path: Path) -> None:
    """Goal: the file adapter is a feed like another. Method: replace the file between two readings."""
    path = tmp_path / "fact.json"
    reader = FeedReader(feed(str(path)))
    for value in (1, 2):
        beside = tmp_path / "beside"
        beside.write_text(json.dumps({"value": value, "at": NOW}))
        beside.rename(path)
        assert await reader.read(NOW) == Observation(value, NOW)
