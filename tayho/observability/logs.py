"""Log lines: one event each, to stderr, as JSON for machines or plain for a person, with secrets masked."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, TextIO, cast

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from tayho.observability.masking import shown_fields

JSON = "json"
PLAIN = "plain"
_FIRST = ("timestamp", "level", "event", "logger")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


def configure_logging(log_format: str | None = None, *, stream: TextIO | None = None) -> None:
    """Send the log of the whole process to `stream` (stderr), and that of libraries with it from WARNING on.

    `log_format` is "json" or "plain"; None decides by whether the stream is a terminal. May be called again.
    """
    output = sys.stderr if stream is None else stream
    chosen = log_format or (PLAIN if output.isatty() else JSON)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.StackInfoRenderer(),
            # The standard library's rendering: unlike structlog's richer ones it never shows local variables.
            structlog.processors.format_exc_info,
            _mask,
            *_rendering(chosen, colours=output.isatty()),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=lambda *names: LineWriter(output, *names),
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    root.handlers = [_Routed()]
    root.setLevel(logging.WARNING)
    logging.captureWarnings(capture=True)


class LineWriter:
    """What structlog writes to: whole lines, and no error where nobody reads them any more.

    A collector that died must not take the work with it: the line is lost, the process goes on.
    """

    def __init__(self, stream: TextIO, name: str = "tayho") -> None:
        self._stream = stream
        self.name = name

    def msg(self, message: str) -> None:
        """Write one line."""
        try:
            self._stream.write(message + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            return

    debug = info = warning = error = critical = exception = msg


class _Routed(logging.Handler):
    """The way of a library's record into our log."""

    def emit(self, record: logging.LogRecord) -> None:
        log = structlog.get_logger(record.name)
        try:
            event = record.getMessage()
        except (TypeError, ValueError):
            event = str(record.msg)
        write = log.error if record.levelno >= logging.ERROR else log.warning
        write(event, exc_info=record.exc_info)


def _rendering(log_format: str, *, colours: bool) -> list[Processor]:
    if log_format == JSON:
        return [structlog.processors.JSONRenderer(ensure_ascii=False)]
    console = structlog.dev.ConsoleRenderer(
        colors=colours, exception_formatter=structlog.dev.plain_traceback, sort_keys=False
    )
    return [_escape, cast("Processor", console)]


def _mask(logger: WrappedLogger, _method: str, event_dict: EventDict) -> MutableMapping[str, Any]:
    if not event_dict.get("logger"):
        event_dict["logger"] = getattr(logger, "name", "tayho")
    fields = cast("Mapping[object, object]", event_dict)
    masked: dict[str, Any] = dict(shown_fields(fields))
    return {name: masked.pop(name) for name in _FIRST if name in masked} | masked


def _escape(_logger: WrappedLogger, _method: str, event_dict: EventDict) -> EventDict:
    """Keep foreign text from moving the cursor or forging a line; only a traceback keeps its own lines."""
    for name, value in event_dict.items():
        if isinstance(value, str):
            escaped = _CONTROL.sub(lambda found: repr(found[0])[1:-1], value)
            event_dict[name] = escaped if name in ("exception", "stack") else escaped.replace("\n", "\\n")
    return event_dict
