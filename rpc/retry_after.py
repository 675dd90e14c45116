"""The Retry-After header (RFC 9110, 10.2.3): seconds or a date, from a stranger."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

RETRY_AFTER_SECONDS_MAX = 600
"""Longest wait believed. A year in this header, by mistake or malice, must not take an endpoint away for a year."""

_DIGITS_MAX = 12


def retry_after_seconds(header: str | None, now: datetime) -> int | None:
    """Seconds to wait from `now` (aware), 0 to RETRY_AFTER_SECONDS_MAX; None when there is no readable header."""
    if header is None:
        return None
    text = header.strip()
    if text.isascii() and text.isdigit():
        seconds = int(text) if len(text) <= _DIGITS_MAX else RETRY_AFTER_SECONDS_MAX
    else:
        moment = _http_date(text)
        if moment is None:
            return None
        seconds = math.ceil((moment - now).total_seconds())
    return min(max(seconds, 0), RETRY_AFTER_SECONDS_MAX)


def _http_date(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    # The parser of the standard library also leaks these two on odd dates.
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
