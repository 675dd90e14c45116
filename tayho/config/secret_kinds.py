"""Kinds whose texts carry secrets: URLs with passwords or path keys, and keys. What they show or refuse quotes none."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rpc.errors import EndpointUrlRefused
from rpc.urls import EndpointUrl, shown_url
from tayho.config.kinds import Kind, Unusable

if TYPE_CHECKING:
    # Taken where they are needed: custody costs the signing libraries, which a role that does not sign never needs.
    from tayho.custody.module import JournalKeys, Pseudonyms, SignerKeys

_PORT_MAX = 65_535
# User and password must not hold these signs unescaped, so that no part of a password is ever taken for a host.
_DATABASE_URL = re.compile(
    r"postgres(?:ql)?://(?:(?P<user>[^:@/?#\s]*)(?P<password>:[^@/?#\s]*)?@)?(?P<hosts>[^@/?#\s]*)"
    r"(?P<database>/[^@/?#\s]*)?(?P<options>\?[^@#\s]*)?"
)
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._%-]+)(?::(?P<port>[0-9]{1,5}))?")
_AT_AFTER_HOST = re.compile(r"[^/?#]*://[^/?#]*[/?#].*@", re.DOTALL)
_ESCAPE = "special signs of user and password are written as %XX"


def database_url() -> Kind[str]:
    """A PostgreSQL URL, of one host or of several among which the writer is found (OPS-5)."""
    return Kind("postgresql://user:password@host[:port][,host…]/database", _read_database_url, _shown_database_url)


def redis_url() -> Kind[str]:
    """A Redis URL, read as strictly as storage will read it."""
    return Kind(
        "redis://[user:password@]host[:port][/number], or rediss:// or unix://; "
        "redis+sentinel://[user:password@]host[:port][,host…]/service[/number]; "
        "redis+cluster://[user:password@]host[:port][,host…]",
        _read_redis_url,
        _shown_redis,
    )


def names_cluster(redis_url: str) -> bool:
    """Whether a Redis URL that was accepted names a cluster."""
    from storage.redis_url import is_cluster_url

    return is_cluster_url(redis_url)


def endpoint_url() -> Kind[str]:
    """The URL of a JSON-RPC endpoint."""
    return Kind("an http or https URL", _read_endpoint_url, shown_url)


def endpoint_urls() -> Kind[tuple[str, ...]]:
    """URLs of JSON-RPC endpoints, each once."""
    return Kind(
        "http or https URLs, separated by commas or spaces",
        _read_endpoint_urls,
        lambda urls: ", ".join(shown_url(url) for url in urls),
    )


def signer_pool() -> Kind[SignerKeys]:
    """The keys of the pool."""
    return Kind(
        "a JSON list of 0x keys, or an object of address to 0x key",
        _read_signer_keys,
        lambda keys: ", ".join(address.checksummed for address in keys.addresses),
    )


def journal_ring() -> Kind[str]:
    """The journal's keys, as text: they are read together with the id of the active one."""
    return Kind("a JSON object of key id to 32-byte 0x key", lambda text: text, lambda _text: "(hidden)")


def pseudonyms() -> Kind[Pseudonyms]:
    """The key under which clients are counted."""
    return Kind("0x and 64 hex digits, from a random source", _read_pseudonyms, lambda _names: "(hidden)")


def read_journal_keys(text: str, active_id: str | None) -> JournalKeys | None:
    """The journal's keys. Without an active id, which is that variable's problem, they are checked and None returned.

    Raises Unusable.
    """
    from tayho.custody.module import KeysRefused, parse_journal_keys
    from tayho.custody.types import KeyFault

    try:
        return parse_journal_keys(text, active_id or "")
    except KeysRefused as refused:
        problems = refused.problems
    blamed = [each for each in problems if active_id is not None or each.fault is not KeyFault.ACTIVE_ID_MISSING]
    if blamed:
        raise Unusable("; ".join(map(str, blamed)))
    return None


def shown_journal_keys(journal_keys: JournalKeys) -> str:
    """The ids, the active one marked."""
    active = journal_keys.active_id
    return ", ".join(f"{key_id} (active)" if key_id == active else key_id for key_id in journal_keys.keys)


def _read_signer_keys(text: str) -> SignerKeys:
    from tayho.custody.module import KeysRefused, parse_signer_keys

    try:
        return parse_signer_keys(text)
    except KeysRefused as refused:
        problems = refused.problems
    # Raised here, so that no frame of the parser, which holds the text, stays attached as context.
    raise Unusable("; ".join(map(str, problems)))


def _read_pseudonyms(text: str) -> Pseudonyms:
    from tayho.custody.module import KeysRefused, parse_pseudonyms

    try:
        return parse_pseudonyms(text)
    except KeysRefused as refused:
        problems = refused.problems
    raise Unusable("; ".join(map(str, problems)))


def _read_database_url(text: str) -> str:
    match = _DATABASE_URL.fullmatch(text)
    if match is None:
        raise Unusable("something else, not shown", _ESCAPE)
    for host in filter(None, match["hosts"].split(",")):
        address = _HOST.fullmatch(host)
        if address is None or int(address["port"] or 0) > _PORT_MAX:
            raise Unusable("a host or port that is none, not shown", _ESCAPE)
    return text


def _shown_database_url(url: str) -> str:
    match = _DATABASE_URL.fullmatch(url)
    if match is None:
        return "(hidden)"
    user = "" if match["user"] is None else match["user"] + (":***" if match["password"] else "") + "@"
    return f"postgresql://{user}{match['hosts']}{match['database'] or ''}{'?…' if match['options'] else ''}"


def _read_redis_url(text: str) -> str:
    refusal = _redis_refusal(text.partition("?")[0])
    if refusal is not None:
        raise Unusable(f"one that is refused: {refusal}", _ESCAPE)
    if _redis_refusal(text) is not None:
        # Not repeated: an unescaped sign in a password makes options of its parts, and storage names the options.
        raise Unusable("an option after the ? that is not taken, or a value that is none, not shown", _ESCAPE)
    return text


def _redis_refusal(url: str) -> str | None:
    from storage.redis_url import RedisUrlInvalid, parse_redis_url

    try:
        parse_redis_url(url)
    except RedisUrlInvalid as refused:
        return str(refused)
    return None


def _shown_redis(url: str) -> str:
    from storage.redis_url import parse_redis_url

    return parse_redis_url(url).shown


def _read_endpoint_url(text: str) -> str:
    if _AT_AFTER_HOST.match(text):
        # A sign in a password has ended the host before the @: the beginning of the password would pass for a port.
        raise Unusable("an @ after the host, not shown", _ESCAPE)
    try:
        EndpointUrl.parse(text)
    except EndpointUrlRefused as refused:
        found = f"{refused.shown}: {refused.detail}"
    else:
        return text
    raise Unusable(found)


def _read_endpoint_urls(text: str) -> tuple[str, ...]:
    urls = tuple(part for part in re.split(r"[,\s]+", text) if part)
    if not urls:
        raise Unusable("no URL")
    refusals: list[str] = []
    for number, url in enumerate(urls, start=1):
        try:
            _read_endpoint_url(url)
        except Unusable as refused:
            refusals.append(f"URL {number}: {refused.found}")
        if url in urls[: number - 1]:
            refusals.append(f"URL {number} is URL {urls.index(url) + 1} again")
    if refusals:
        raise Unusable("; ".join(refusals))
    return urls
