"""URLs are shown without what is secret in them, and used with it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpc.errors import EndpointUrlRefused
from rpc.urls import UNREADABLE_URL, EndpointUrl, shown_url

KEY = "4f1c8be2a97d4d5ab3"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://127.0.0.1:8545", "http://127.0.0.1:8545"),
        ("http://127.0.0.1:8545/", "http://127.0.0.1:8545"),
        (f"https://eth.example.com/v2/{KEY}", "https://eth.example.com/…"),
        (f"https://eth.example.com?key={KEY}", "https://eth.example.com/…"),
        (f"https://user:{KEY}@eth.example.com:444/", "https://eth.example.com:444"),
        (f"HTTPS://{KEY}@ETH.example.com", "https://eth.example.com"),
        (f"https://eth.example.com/#{KEY}", "https://eth.example.com"),
        (f"http://[::1]:8545/{KEY}", "http://[::1]:8545/…"),
        (f"https://eth.example.com\\@{KEY}", UNREADABLE_URL),
        ("https://user:12/34@eth.example.com", UNREADABLE_URL),
        (f"https://eth.example.com:port/{KEY}", UNREADABLE_URL),
        (f"https://eth .example.com/{KEY}", UNREADABLE_URL),
        (f"https://eth.example.com/\n{KEY}", UNREADABLE_URL),
        (f"https:///{KEY}", UNREADABLE_URL),
        (KEY, UNREADABLE_URL),
        (f"https://[{KEY}", UNREADABLE_URL),
        ("", UNREADABLE_URL),
    ],
)
def test_url_is_shown_without_secrets(url: str, shown: str) -> None:
    """Goal: RPC-10. Method: a key in every part of a URL, and texts that are no URL."""
    assert shown_url(url) == shown


@given(st.text() | st.text().map(lambda tail: "https://" + tail))
def test_no_text_raises(url: str) -> None:
    """Goal: showing and parsing any configured text is safe. Method: arbitrary text, with and without a scheme."""
    shown_url(url)
    try:
        EndpointUrl.parse(url)
    except EndpointUrlRefused as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://a.example.com",
        "wss://a.example.com",
        "//a.example.com",
        f"https://{'a' * 64}.example.com",
        "https://a..example.com",
        "https://münchen.example.com",
        f"https://user:{KEY}@",
    ],
)
def test_unusable_urls_are_refused_without_their_secrets(url: str) -> None:
    """Goal: a bad setting is one clear line. Method: schemes we do not speak and hosts that are none."""
    with pytest.raises(EndpointUrlRefused) as refusal:
        EndpointUrl.parse(url)
    assert KEY not in str(refusal.value)
    assert KEY not in repr(refusal.value)


def test_credentials_become_a_header() -> None:
    """Goal: credentials work and leave the URL. Method: percent-encoded ones, against the pair of RFC 7617."""
    url = EndpointUrl.parse("https://al%40ice:s%3Aecret@eth.example.com/rpc")
    assert url.target == "https://eth.example.com/rpc"
    assert url.authorization == "Basic YWxAaWNlOnM6ZWNyZXQ="
    assert "s:ecret" not in repr(url)
    assert "s%3Aecret" not in repr(url)


def test_redaction_knows_every_secret_and_spares_words() -> None:
    """Goal: a provider quoting our key cannot leak it, and its other words stay. Method: quote every part."""
    url = EndpointUrl.parse(f"https://user:p%40ssword@eth.example.com/v2/{KEY}?token=abcdefgh%2B&v=1")
    said = f"bad key {KEY} or /v2/{KEY} or p@ssword or p%40ssword or abcdefgh+: upgrade to v2, nonce 1"
    assert url.redact(said) == "bad key *** or *** or *** or *** or ***: upgrade to v2, nonce 1"
