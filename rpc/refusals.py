"""What a refusal is worth to someone who has other endpoints to ask. Pure.

Most refusals are answers: another endpoint would say the same. Some tell only of the one that was asked: it does not
have the block yet, or no longer; it has a limit that is used up; it does not serve the method. Codes do not tell them
apart (-32000 stands for all of them, and Alchemy says a missing block with the revert's code 3), so the wording
decides, in this order. A revert is never looked at: a contract writes its reason and may write anything.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from rpc.errors import EndpointFault, Reverted, RpcError, RpcRefused

Standing: TypeAlias = Literal["answer", "missing", "throttled", "unserved", "trouble"]
"""`answer`: final, whoever is asked. `missing`: not in this node's data. `throttled`: a limit of the caller's at this
endpoint. `unserved`: the method or its argument is not offered here. `trouble`: the node's own, in an error's words."""

# The caller asked for too much: every endpoint has such a limit, and a smaller question is the remedy.
_TOO_LARGE = re.compile(
    r"query returned more than|response size (?:exceeded|is too)|block range|range (?:is )?too (?:large|wide)"
    r"|too many (?:blocks|logs|results)|exceeds? max(?:imum)? (?:results|block|range)|limited to a? ?\d+",
    re.IGNORECASE,
)
_THROTTLED = re.compile(
    r"rate.?limit|too many requests|request (?:rate|count|limit)|requests? per (?:second|minute|day)|throughput"
    r"|capacity|compute units|throttl|quota|credits|payment required|billing|daily limit|exceeded .*(?:plan|tier)",
    re.IGNORECASE,
)
_MISSING = re.compile(
    r"missing trie node|header not found|header for hash not found|unknown block|block not found|could not find block"
    r"|block ?out ?of ?range|block height is \d+ but requested|height must be less than or equal|greater than latest"
    r"|cannot query unfinalized|no state available|state (?:is )?(?:not available|unavailable|pruned)|trie does not"
    r"|historical state|not currently canonical|transaction not found|data is not available|after last accepted block"
    r"|pruned|invalid block tag|resource (?:not found|unavailable)|beyond (?:the )?(?:current )?head",
    re.IGNORECASE,
)
_UNSERVED = re.compile(
    r"method .*(?:not (?:found|supported|available|allowed|exist)|does not exist|is disabled)|unsupported method"
    r"|not supported|unsupported block tag",
    re.IGNORECASE,
)
_TROUBLE = re.compile(
    r"internal (?:server )?error|time[d ]?-?out|timeout|overload|try again|temporarily|unavailable|syncing"
    r"|upstream|bad gateway|no (?:available|healthy) (?:upstream|node|backend)|connection (?:refused|reset)",
    re.IGNORECASE,
)
_WORDINGS: tuple[tuple[re.Pattern[str], Standing], ...] = (
    (_TOO_LARGE, "answer"),
    (_THROTTLED, "throttled"),
    (_MISSING, "missing"),
    (_UNSERVED, "unserved"),
    (_TROUBLE, "trouble"),
)
# JSON-RPC 2.0 and EIP-1474, for refusals whose words say nothing.
_CODES: dict[int, Standing] = {
    -32001: "missing",
    -32002: "trouble",
    -32004: "unserved",
    -32005: "throttled",
    -32601: "unserved",
    -32603: "trouble",
    429: "throttled",
}


def standing_of(refusal: RpcRefused) -> Standing:
    """What the refusal tells of: the question, or only this endpoint."""
    if isinstance(refusal, Reverted):
        return "answer"
    for wording, standing in _WORDINGS:
        if wording.search(refusal.message):
            return standing
    return _CODES.get(refusal.code, "answer")


def is_answer(error: RpcError) -> bool:
    """Whether nobody else need be asked."""
    return isinstance(error, RpcRefused) and standing_of(error) == "answer"


# Least telling first. A block that is missing everywhere is nearly an answer; an open circuit tells only of the past.
_TELLING: dict[Standing, int] = {"throttled": 3, "trouble": 4, "unserved": 5, "missing": 6, "answer": 7}


def most_telling(errors: list[RpcError]) -> RpcError:
    """The error to raise when several endpoints failed to answer one question; of equals the first.

    Raises ValueError where there is none.
    """
    if not errors:
        raise ValueError("no endpoint was asked: there is no error to choose from")
    return max(errors, key=_telling)


def _telling(error: RpcError) -> int:
    if isinstance(error, RpcRefused):
        return _TELLING[standing_of(error)]
    if isinstance(error, EndpointFault):
        return 1 if error.is_circuit_open else 2
    return 0
