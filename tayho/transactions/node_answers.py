"""What a node's answer to a transaction says, by the table of `node_answers.toml` (TX-4): pure."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib import resources

from attrs import frozen
from cattrs import Converter

from rpc.errors import CircuitOpen, EndpointFault, HttpStatus, RpcError, RpcRefused
from tayho.transactions.types import Answer, AnswerReason

_documents = Converter(forbid_extra_keys=True)
_TABLE = "node_answers.toml"
# A gateway's way to say "not now"; what it did with the bytes is unknown all the same.
_BUSY_STATUSES = frozenset({408, 425, 429, 502, 503, 504})


@frozen
class Row:
    """One way to say something. The file says what each field means."""

    reason: AnswerReason
    patterns: tuple[str, ...]
    clients: tuple[str, ...]
    source: str
    examples: tuple[str, ...]
    code: int | None = None
    is_dialect: bool = False

    def is_said_by(self, client: str | None) -> bool:
        """Whether a node of this web3_clientVersion is one of those who say so."""
        name = "" if client is None else client.partition("/")[0].strip().lower()
        return any(name == one or name.startswith(f"{one}-") for one in self.clients)

    def fits(self, code: int, words: str) -> bool:
        """Whether an error answer says this; `words` is what `normalised` made of its message."""
        if self.code is not None and self.code != code:
            return False
        return not self.patterns or _compiled(self.patterns).search(words) is not None


@cache
def rows() -> tuple[Row, ...]:
    """The table, in its order."""
    text = resources.files("tayho.transactions").joinpath(_TABLE).read_text(encoding="utf-8")
    return _documents.structure(tomllib.loads(text)["row"], tuple[Row, ...])


def classify(tx_hash: bytes, answer: bytes | RpcError, client: str | None = None) -> Answer:
    """Read the answer to one send. `client` is the node's web3_clientVersion, where it is known.

    Whatever the table does not know is ambiguous: no words at all let anybody give signed bytes up (TX-4).
    """
    match answer:
        case bytes():
            if answer == tx_hash:
                return Answer("accepted", reason="accepted")
            return Answer("unknown", f"the node answered with another hash: {answer.hex()}", "ambiguous")
        case RpcRefused():
            reason = reason_of(answer.code, answer.message, client)
            if reason == "already_known":
                return Answer("already_known", answer.message, reason)
            return Answer("refused", f"{answer.code}: {answer.message}", reason)
        case EndpointFault(reason=HttpStatus(status=status)) if status in _BUSY_STATUSES:
            return Answer("unknown", str(answer), "retry_elsewhere")
        case EndpointFault(reason=CircuitOpen()):
            return Answer("unknown", str(answer), "retry_elsewhere")
        case _:
            return Answer("unknown", str(answer), "ambiguous")


def reason_of(code: int, message: str, client: str | None = None) -> AnswerReason:
    """The class of an error answer: the first row that fits, the client's own before those of others.

    Words decide before bare codes do: a gateway in front of a node has codes of its own.
    """
    words = normalised(message)
    for row in sorted(rows(), key=lambda row: (not row.patterns, not row.is_said_by(client))):
        if row.fits(code, words) and (not row.is_dialect or row.is_said_by(client)):
            return row.reason
    return "ambiguous"


def normalised(message: str) -> str:
    """Lower case, its white space folded: clients differ in both from one release to the next."""
    return " ".join(message.lower().split())


@cache
def _compiled(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns))
