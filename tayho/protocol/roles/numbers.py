"""Numbers of the chain in requests: as text, because other readers of JSON hold no more than 53 bits. Pure."""

from __future__ import annotations

import re

from tayho.protocol.roles.kind import RoleRequestRefused

_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,77})", re.ASCII)


def whole(text: str) -> int:
    """The number that a request has as text. Raises RoleRequestRefused."""
    if _WHOLE.fullmatch(text) is None:
        raise RoleRequestRefused("a number of the request is not written as a whole number")
    return int(text)
