"""Bodies are bounded on the wire and after decompression."""

from __future__ import annotations

import gzip
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpc.inflate import Body, Garbled, TooLarge


def read(encoding: str | None, chunks: list[bytes], bytes_max: int = 1000) -> bytes:
    body = Body(encoding, bytes_max)
    for chunk in chunks:
        body.feed(chunk)
    return body.finish()


@given(st.binary(max_size=1000), st.integers(min_value=1, max_value=50))
def test_a_body_is_what_was_sent(content: bytes, step: int) -> None:
    """Goal: honest bodies pass up to the very bound. Method: plain and compressed, in pieces of any size."""
    packed = gzip.compress(content, mtime=0)
    for encoding, wire in ((None, content), ("identity", content), ("gzip", packed), (" GZIP ", packed)):
        pieces = [wire[at : at + step] for at in range(0, len(wire), step)]
        assert read(encoding, pieces, max(len(content), len(wire))) == content


def test_one_byte_more_is_too_large() -> None:
    """Goal: the bound is exact. Method: one byte above it, plain and compressed."""
    for encoding, wire in ((None, b"x" * 1001), ("gzip", gzip.compress(b"x" * 1001, mtime=0))):
        with pytest.raises(TooLarge):
            read(encoding, [wire])


def test_a_bomb_is_never_unpacked() -> None:
    """Goal: decompression stops at the bound, not after it. Method: the memory used by a bomb of 64 MiB."""
    bomb = gzip.compress(b"\0" * (64 * 2**20))
    tracemalloc.start()
    with pytest.raises(TooLarge):
        read("gzip", [bomb], 2**20)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 8 * 2**20


def test_compressed_nothing_without_end_is_too_large() -> None:
    """Goal: a stream that decodes to nothing is bounded on the wire. Method: endless empty deflate blocks."""
    header, empty_block = gzip.compress(b"", mtime=0)[:10], b"\x00\x00\x00\xff\xff"
    body = Body("gzip", 1000)
    body.feed(header)
    with pytest.raises(TooLarge):
        for _ in range(1000):
            body.feed(empty_block)


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, gzip", "gzip,identity", "zstd", "x-gzip"])
def test_encodings_not_asked_for_are_refused(encoding: str) -> None:
    """Goal: no chain of encodings multiplies. Method: others, and more than one."""
    with pytest.raises(Garbled):
        Body(encoding, 1000)


@pytest.mark.parametrize(
    "wire",
    [
        b"not gzip",
        gzip.compress(b"x" * 100, mtime=0)[:-4],
        gzip.compress(b"x", mtime=0) + b"more",
        gzip.compress(b"x", mtime=0) * 2,
        b"\x1f",
    ],
)
def test_a_garbled_body_is_named(wire: bytes) -> None:
    """Goal: truncated and continued streams are no bodies. Method: cut, appended to, doubled."""
    with pytest.raises(Garbled):
        read("gzip", [wire])
