"""`tayho health`: a process asked from beside it, with nothing but its address."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from click.testing import CliRunner, Result

from tayho.cli.health import health_command

READY = {"ready": True, "reasons": [], "warnings": [{"check": "postgresql", "reason": "too many connections"}]}
DRAINING = {"ready": False, "reasons": [{"check": "drain", "reason": "draining: SIGTERM"}], "warnings": []}


@contextmanager
def answering(status: int, body: bytes) -> Generator[tuple[str, list[str]]]:
    """A process that answers so: its address, and what it was asked."""
    asked: list[str] = []

    class Face(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its parent's name for it
            del format, args

    with HTTPServer(("127.0.0.1", 0), Face) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


def ask(bind: str, *options: str) -> Result:
    return CliRunner().invoke(health_command, list(options), env={"HTTP_BIND": bind})


def test_alive_and_ready_are_two_questions() -> None:
    """Goal: each answer with its exit code and its reasons. Method: a process that answers one and the other."""
    with answering(200, b'{"status": "alive"}') as (bind, asked):
        alive = ask(bind)
        # What was bound to every address is asked at this machine's own.
        assert ask(f"0.0.0.0:{bind.rpartition(':')[2]}").exit_code == 0
    assert (alive.exit_code, alive.output, asked) == (0, "alive\n", ["/healthz", "/healthz"])
    with answering(200, json.dumps(READY).encode()) as (bind, asked):
        ready = ask(bind, "--ready")
    assert (ready.exit_code, ready.output) == (0, "ready\nwarning: postgresql: too many connections\n")
    assert asked == ["/readyz"]
    with answering(503, json.dumps(DRAINING).encode()) as (bind, _):
        draining = ask(bind, "--ready")
        assert json.loads(ask(bind, "--ready", "--json").output) == DRAINING
    assert (draining.exit_code, draining.output) == (1, "not ready\nreason: drain: draining: SIGTERM\n")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]"])
def test_another_face_is_no_health(body: bytes) -> None:
    """Goal: whatever else listens there is not taken for it. Method: 200 with something else than a document."""
    with answering(200, body) as (bind, _):
        answer = ask(bind)
    assert answer.exit_code == 1
    assert answer.output.startswith("unanswered: ")


def test_an_address_that_cannot_be_asked_is_refused() -> None:
    """Goal: the container's check fails clearly. Method: nobody listens; a port that is any; no address at all."""
    with answering(200, b"") as (bind, _):
        pass
    assert ask(bind).exit_code == 1
    assert [ask(unusable).exit_code for unusable in ("127.0.0.1:0", "everywhere")] == [2, 2]
