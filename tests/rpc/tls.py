"""A private certificate authority, for servers on loopback."""

from __future__ import annotations

import ssl
from typing import Any, cast

import trustme


def authority_and_server() -> tuple[trustme.CA, ssl.SSLContext]:
    """An authority, and the context of a server at 127.0.0.1 that it certified."""
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    # trustme also configures contexts of pyOpenSSL, which is not installed and so not typed.
    cast("Any", authority.issue_cert("127.0.0.1")).configure_cert(context)
    return authority, context


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    """The context of a client that trusts this authority too."""
    context = ssl.create_default_context()
    cast("Any", authority).configure_trust(context)
    return context
