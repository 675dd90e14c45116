"""RPC URLs: what may be shown of them, and what must be taken out of any text that quotes them (RPC-10).

Providers put their keys into the path (`/v2/<key>`), the query or the credentials, so of a URL only scheme, host and
port are public.
"""

from __future__ import annotations

import base64
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from attrs import field, frozen

from rpc.errors import EndpointUrlRefused

UNREADABLE_URL = "(unreadable URL)"

_KEY_CHARACTERS_MIN = 8
"""Shorter path segments and query values are names ("v2", "mainnet"), not keys; hiding them garbles honest messages."""

_PASSWORD_CHARACTERS_MIN = 4

_HOST_LABEL_CHARACTERS_MAX = 63


def shown_url(url: str) -> str:
    """The URL for logs and errors: scheme, host and port, with `/…` where more was cut off."""
    parts = _split(url)
    if parts is None or not parts.hostname or not _is_plain_host(parts.hostname) or not parts.scheme.isalnum():
        return UNREADABLE_URL
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = "" if parts.port is None else f":{parts.port}"
    rest = "/…" if parts.path not in {"", "/"} or parts.query else ""
    return f"{parts.scheme}://{host}{port}{rest}"


_NUMBER_MARK = " #"


def numbered(shown: str, number: int) -> str:
    """The name of the n-th endpoint, from 1 on, whose URL is shown alike: hidden keys must not mix up two of them."""
    return shown if number == 1 else f"{shown}{_NUMBER_MARK}{number}"


def unnumbered(name: str) -> str:
    """The URL as it is shown, of an endpoint's name."""
    return name.partition(_NUMBER_MARK)[0]


@frozen
class EndpointUrl:
    """A usable RPC URL: `shown` for people, the rest only for the transport."""

    shown: str
    target: str = field(repr=False)
    authorization: str | None = field(repr=False)
    withheld: tuple[str, ...] = field(repr=False)

    @classmethod
    def parse(cls, url: str) -> EndpointUrl:
        """Raises EndpointUrlRefused, without quoting the URL's secrets."""
        shown = shown_url(url)
        parts = _split(url)
        if parts is None or shown == UNREADABLE_URL or parts.hostname is None:
            raise EndpointUrlRefused(shown, "expected http://host or https://host, with a port and a path if need be")
        if parts.scheme not in {"http", "https"}:
            raise EndpointUrlRefused(shown, "only http and https are spoken here")
        if any(not label or len(label) > _HOST_LABEL_CHARACTERS_MAX for label in parts.hostname.rstrip(".").split(".")):
            raise EndpointUrlRefused(shown, "the host name is not one")
        return cls(shown, _without_credentials(parts), _basic_authorization(parts), _withheld_of(url, parts))

    def redact(self, text: str) -> str:
        """The text with every secret of this URL replaced: providers quote the key or the path in their errors."""
        for part in self.withheld:
            text = text.replace(part, "***")
        return text

    def shown_cause(self, error: Exception) -> Exception | None:
        """The error as the cause of another; None when its text quotes a secret, which a traceback would print."""
        return error if self.redact(str(error)) == str(error) else None


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.port  # read here because it is parsed only when read
    except ValueError:
        return None
    # A backslash: readers differ in where the host ends. An @ in the path: a password with an unescaped slash.
    plain = url.isascii() and url.isprintable() and not {" ", "\\"} & set(url) and "@" not in parts.path
    return parts if plain else None


def _is_plain_host(host: str) -> bool:
    return all(character.isalnum() or character in ".-_:" for character in host)


def _without_credentials(parts: SplitResult) -> str:
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment="").geturl()


def _basic_authorization(parts: SplitResult) -> str | None:
    """The Authorization header for credentials in the URL (RFC 7617)."""
    if parts.username is None:
        return None
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return "Basic " + base64.b64encode(pair.encode()).decode()


def _withheld_of(url: str, parts: SplitResult) -> tuple[str, ...]:
    """Everything in the URL that may be a key, longest first, as written and as decoded."""
    keys = [*parts.path.split("/"), *(value for _, value in parse_qsl(parts.query)), parts.query, parts.path]
    passwords = [part for part in (parts.username, parts.password) if part and len(part) >= _PASSWORD_CHARACTERS_MIN]
    candidates = [key for key in keys if len(key) >= _KEY_CHARACTERS_MIN] + passwords
    whole = [url] if candidates else []
    both = {text for candidate in whole + candidates for text in (candidate, unquote(candidate))}
    return tuple(sorted(both, key=len, reverse=True))
