"""Log lines as they leave the process."""

from __future__ import annotations

import io
import json
import logging
import warnings
from datetime import datetime, timedelta

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from tayho.custody.module import parse_signer_keys
from tayho.kernel.opaque import Opaque
from tayho.observability import configure_logging

KEY_HEX = "5d2f1c9ae07bb843a6cf4e1d08f79b3362aa54cd917e06b8f1d2c3a495867b0e"


@pytest.fixture(autouse=True)
def _logging_as_before():
    root = logging.getLogger()
    before = (list(root.handlers), root.level)
    yield
    structlog.reset_defaults()
    root.handlers, root.level = before
    logging.captureWarnings(capture=False)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class ClosedPipe(io.StringIO):
    def write(self, _text: str) -> int:
        raise BrokenPipeError(32, "Broken pipe")


def lines_of(stream: io.StringIO) -> list[dict]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_on_a_pipe_each_event_is_one_line_of_json():
    """Goal: what a collector reads. Method: an event with fields and ids bound to the task, parsed back."""
    stream = io.StringIO()
    configure_logging(stream=stream)
    with structlog.contextvars.bound_contextvars(job_id="j1"):
        structlog.get_logger("tayho.worker").info("attempt_begun", attempt=3, text="two\nlines é")
    [line] = lines_of(stream)
    moment = datetime.fromisoformat(line.pop("timestamp"))
    assert moment.utcoffset() == timedelta(0)
    assert line == {
        "level": "info",
        "event": "attempt_begun",
        "logger": "tayho.worker",
        "job_id": "j1",
        "attempt": 3,
        "text": "two\nlines é",
    }
    assert stream.getvalue().startswith('{"timestamp":')


def test_on_a_terminal_lines_are_plain_and_the_variable_decides_over_both():
    """Goal: LOG_FORMAT's default and its values. Method: a terminal and a pipe, with and without a wish."""
    for stream, wish, is_json in (
        (Terminal(), None, False),
        (Terminal(), "json", True),
        (io.StringIO(), "plain", False),
        (io.StringIO(), None, True),
    ):
        configure_logging(wish, stream=stream)
        structlog.get_logger("tayho.x").warning("publish_failed", failures=2)
        [line] = stream.getvalue().splitlines()
        assert line.startswith("{") == is_json
        assert "publish_failed" in line


def test_configuring_again_moves_loggers_that_were_taken_before():
    """Goal: a module's logger follows. Method: take it first, configure twice."""
    log = structlog.get_logger("tayho.x")
    first, second = io.StringIO(), io.StringIO()
    configure_logging("json", stream=first)
    log.info("one")
    configure_logging("json", stream=second)
    log.info("two")
    assert [line["event"] for line in lines_of(first) + lines_of(second)] == ["one", "two"]


def test_below_info_nothing_is_written():
    """Goal: debug lines cost nothing. Method: one of them."""
    stream = io.StringIO()
    configure_logging("json", stream=stream)
    structlog.get_logger("tayho.x").debug("detail")
    assert stream.getvalue() == ""


def test_libraries_speak_through_the_same_log_from_warning_on():
    """Goal: no second format, and no request lines with URLs. Method: three levels, a broken record, a warning."""
    stream = io.StringIO()
    configure_logging("json", stream=stream)
    library = logging.getLogger("httpx2")
    library.info("HTTP Request: POST https://rpc.example.com/v2/key")
    library.warning("slow %s", "https://user:hunter2@rpc.example.com")
    library.error("lost", exc_info=ValueError("cause"))
    library.warning("broken %d", "x")
    warnings.warn("something old", DeprecationWarning, stacklevel=1)
    found = [(line["level"], line["logger"], line["event"]) for line in lines_of(stream)]
    assert found[:3] == [
        ("warning", "httpx2", "slow https://***@rpc.example.com"),
        ("error", "httpx2", "lost"),
        ("warning", "httpx2", "broken %d"),
    ]
    assert "ValueError: cause" in lines_of(stream)[1]["exception"]
    assert [line["logger"] for line in lines_of(stream)[3:]] == ["py.warnings"]


@pytest.mark.parametrize("log_format", ["json", "plain"])
def test_an_exception_shows_its_lines_and_no_local_variable(log_format):
    """Goal: a traceback that can be read and leaks nothing. Method: raise beside locals that hold a password."""
    stream = io.StringIO()
    configure_logging(log_format, stream=stream)

    def fails() -> None:
        url = "postgresql://tayho:hunter" + "2@db/tayho"
        raise RuntimeError(f"cannot use {url}")

    try:
        fails()
    except RuntimeError:
        structlog.get_logger("tayho.x").exception("crashed")
    shown = stream.getvalue()
    assert "RuntimeError: cannot use postgresql://***@db/tayho" in shown
    assert "in fails" in shown
    assert "hunter2" not in shown


@pytest.mark.parametrize("log_format", ["json", "plain"])
def test_what_holds_a_secret_is_masked(log_format):
    """Goal: no careless field prints a key. Method: secrets under telling and untelling names, nested."""
    stream = io.StringIO()
    configure_logging(log_format, stream=stream)
    material = next(iter(parse_signer_keys(f'["0x{KEY_HEX}"]').keys.values()))
    signed = bytes.fromhex("02f8" + "ab" * 110)
    structlog.get_logger("tayho.x").info(
        "careless",
        password="hunter2",
        signer_keys=[KEY_HEX],
        headers={"Authorization": "Bearer hunter2", "accept": "x"},
        api_key="hunter2",
        execution_token="hunter2",
        material=material,
        sealed=Opaque(b"hunter2"),
        octets=bytes.fromhex(KEY_HEX),
        nested=[{"journal_key": KEY_HEX}, ("https://u:hunter2@x/y",)],
        error=f"node refused 0x{signed.hex()}",
        key_id="2026-01",
        tx_hash="0x" + "12" * 32,
    )
    shown = stream.getvalue()
    assert not [secret for secret in ("hunter2", KEY_HEX, "ab" * 20) if secret in shown]
    assert "2026-01" in shown
    assert "0x" + "12" * 32 in shown


def test_plain_lines_cannot_be_forged():
    """Goal: foreign text neither moves the cursor nor begins a line. Method: an event and a field full of controls."""
    stream = io.StringIO()
    configure_logging("plain", stream=stream)
    logging.getLogger("lib").warning("x\r\n2026-01-01 [info] forged\x1b[2J")
    structlog.get_logger("tayho.x").info("event", reason="a\nb\x9b31m\u2028c", other=["\x1b[31m"])
    assert len(stream.getvalue().splitlines()) == 2
    assert not [character for character in stream.getvalue() if character in "\x1b\x9b\r\u2028"]


def test_a_log_that_nobody_reads_stops_nothing():
    """Goal: a dead collector takes no job with it. Method: a broken pipe, and a closed file."""
    closed = io.StringIO()
    closed.close()
    for stream in (ClosedPipe(), closed):
        # Closed only after the choice of a format, as a collector is that dies later.
        configure_logging("json", stream=stream) if not stream.closed else None
        structlog.get_logger("tayho.x").warning("event")


def test_a_value_that_cannot_be_shown_is_named():
    """Goal: no value breaks the line it stands in. Method: a raising repr, NaN, a cycle, a deep and a long list."""

    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    cycle: list = []
    cycle.append(cycle)
    stream = io.StringIO()
    configure_logging("json", stream=stream)
    structlog.get_logger("tayho.x").info(
        "odd", broken=Broken(), nan=float("nan"), cycle=cycle, long=list(range(1000)), text="x" * 100_000
    )
    [line] = lines_of(stream)
    assert line["broken"] == "(Broken whose repr raised RuntimeError)"
    assert line["nan"] == "nan"
    assert line["long"][-1] == "… 900 more"
    assert len(stream.getvalue()) < 30_000


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary()),
    lambda inner: st.one_of(
        st.lists(inner), st.dictionaries(st.text(), inner), st.dictionaries(st.integers(), inner), st.tuples(inner)
    ),
    max_leaves=20,
)


@given(event=st.text(), fields=st.dictionaries(st.from_regex(r"[a-z_]{1,9}", fullmatch=True), VALUES, max_size=4))
def test_any_event_becomes_one_line(event, fields):
    """Goal: logging never raises and never breaks the line discipline. Method: random events in both formats."""
    taken = {"event", "logger", "level", "timestamp", "exc_info", "stack_info", "exception", "stack", "self"}
    for log_format in ("json", "plain"):
        stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace", write_through=True)
        configure_logging(log_format, stream=stream)
        structlog.get_logger("tayho.x").info(event, **{name: fields[name] for name in fields.keys() - taken})
        written = stream.buffer.getvalue()
        assert written.count(b"\n") == 1
        if log_format == "json":
            json.loads(written)
