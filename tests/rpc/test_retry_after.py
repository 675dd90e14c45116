"""Retry-After: seconds mean seconds, dates mean dates, absurdities are capped."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpc.retry_after import RETRY_AFTER_SECONDS_MAX, retry_after_seconds

NOW = datetime(2026, 3, 1, 12, 0, 0, 500_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("0", 0),
        ("2", 2),  # not milliseconds (ethers 6.17)
        (" 30 ", 30),
        ("31536000", RETRY_AFTER_SECONDS_MAX),
        ("9" * 5000, RETRY_AFTER_SECONDS_MAX),
        ("Sun, 01 Mar 2026 12:00:30 GMT", 30),  # 29.5 s away: never earlier than asked
        ("Sun, 01 Mar 2026 11:00:00 GMT", 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", RETRY_AFTER_SECONDS_MAX),
        ("Sun, 01 Mar 2026 12:00:30 -0000", 30),
        ("-5", None),
        ("1.5", None),
        ("1e9", None),
        ("٣", None),
        ("", None),
        ("soon", None),
        ("1, 2", None),
    ],
)
def test_header_is_read(header: str | None, seconds: int | None) -> None:
    """Goal: the wait is what was asked, within bounds, or unknown. Method: both forms, at and beyond their edges."""
    assert retry_after_seconds(header, NOW) == seconds


@given(st.text() | st.from_regex(r"\w{3}, \d{1,5} \w{3} \d{1,6} \d{1,3}:\d{1,3}(:\d{1,3})? ?([+-]\d{1,6}|\w{0,4})"))
def test_no_header_raises(header: str) -> None:
    """Goal: a header cannot break the reader. Method: arbitrary text and things shaped like dates."""
    seconds = retry_after_seconds(header, NOW)
    assert seconds is None or 0 <= seconds <= RETRY_AFTER_SECONDS_MAX
