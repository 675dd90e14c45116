"""What can go wrong between us and one endpoint: one exception per refusal, one value per reason.

Two families, because they mean opposite things (RPC-4). An `EndpointFault` says that the endpoint gave no usable
answer: it counts against the endpoint, and the question is still open. An `RpcRefused` *is* the answer: the endpoint
understood the question and said no; asking another endpoint the same thing is the caller's decision.

No text in here contains the endpoint's URL beyond scheme, host and port (RPC-10).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from attrs import field, frozen

from rpc.foreign_text import printable

if TYPE_CHECKING:
    from rpc.ballots import Vote

Stage: TypeAlias = Literal["slot", "chain check", "headers", "body", "endpoints"]
"""Where an exchange stood: waiting for one of our own connections, for the chain id, for headers, for the body; or,
for a pool, for one endpoint after the other."""


@frozen
class Transport:
    """The connection failed: refused, reset, not TLS, closed before or inside the answer, or not HTTP."""

    detail: str

    def __str__(self) -> str:
        return self.detail


@frozen
class DeadlinePassed:
    """The whole exchange took longer than allowed. At stage "slot" the wait was for our own in-flight bound."""

    seconds: float
    stage: Stage

    def __str__(self) -> str:
        if self.stage == "slot":
            return f"no free connection within {self.seconds:g} s: our own in-flight bound is used up"
        return f"no whole answer within {self.seconds:g} s (was waiting at: {self.stage})"


@frozen
class HttpStatus:
    """The endpoint answered with an HTTP status that carries no JSON-RPC answer; redirects are among them."""

    status: int
    retry_after_seconds: int | None = None

    def __str__(self) -> str:
        wait = "" if self.retry_after_seconds is None else f", asks to wait {self.retry_after_seconds} s"
        redirect = " (a redirect, not followed)" if 300 <= self.status < 400 else ""
        return f"HTTP status {self.status}{redirect}{wait}"


@frozen
class BodyTooLarge:
    """The answer is larger than we accept, counted after decompression."""

    bytes_max: int

    def __str__(self) -> str:
        return f"the answer is larger than {self.bytes_max} bytes"


@frozen
class Malformed:
    """The answer is not the JSON-RPC answer to what was asked: wrong id, missing or mistyped field, not JSON, …"""

    detail: str

    def __str__(self) -> str:
        return f"unusable answer: {self.detail}"


@frozen
class ChainMismatch:
    """The endpoint serves another chain than the configured one."""

    expected: int
    found: int

    def __str__(self) -> str:
        return f"serves chain id {self.found}, expected {self.expected}: point the URL at the right network"


@frozen
class CircuitOpen:
    """The endpoint was not asked: its circuit for this class of methods is open, or its one probe is under way."""

    method_class: str
    seconds_left: float
    cause: str

    def __str__(self) -> str:
        when = f"for another {self.seconds_left:.1f} s" if self.seconds_left > 0 else "until its probe has ended"
        return f"not asked: the circuit for {self.method_class} methods is open {when} ({self.cause})"


Reason: TypeAlias = Transport | DeadlinePassed | HttpStatus | BodyTooLarge | Malformed | ChainMismatch | CircuitOpen


class RpcError(Exception):
    """Anything this package raises about an endpoint."""


@frozen
class EndpointUrlRefused(RpcError):
    """An RPC URL that cannot be used. `shown` is the URL without its secrets."""

    shown: str
    detail: str

    def __str__(self) -> str:
        return f"RPC URL {self.shown} is not usable: {self.detail}"


@frozen
class EndpointFault(RpcError):
    """The endpoint gave no usable answer; the question is open. For a write: its outcome is unknown."""

    endpoint: str
    reason: Reason
    method: str = ""

    def __str__(self) -> str:
        asked = f" ({self.method})" if self.method else ""
        return f"{self.endpoint}{asked}: {self.reason}"

    @property
    def is_circuit_open(self) -> bool:
        """Whether nothing was sent at all."""
        return isinstance(self.reason, CircuitOpen)

    def about(self, method: str) -> EndpointFault:
        """The same fault for another question that it hit too: an exception belongs to one raiser only."""
        return fault(self.endpoint, method, self.reason)


@frozen
class WrongChain(EndpointFault):
    """The endpoint serves another chain; nothing it says may be used. `reason` names expected and found chain id."""


@frozen
class RpcRefused(RpcError):
    """The endpoint answered with a JSON-RPC error: the caller's request was understood and refused.

    `message` is printable and bounded, secrets of the URL removed; `data` is the parsed JSON as it came.
    """

    code: int
    message: str
    data: object = field(default=None, repr=False)
    endpoint: str = ""
    method: str = ""

    def __str__(self) -> str:
        asked = f" ({self.method})" if self.method else ""
        return f"{self.endpoint or 'endpoint'}{asked} refused with code {self.code}: {self.message}"


@frozen
class Reverted(RpcRefused):
    """The EVM ran the call and reverted it. `data` is the revert data (may be empty), `reason` what it says."""

    data: bytes = field(default=b"", repr=False)
    reason: str | None = None


_ANSWER_CHARACTERS_MAX = 200


@frozen
class NoQuorum(RpcError):
    """No majority of the configured voters agrees, so nothing may be concluded. `votes` is what each one said."""

    method: str
    needed: int
    voters: tuple[str, ...]
    votes: tuple[Vote, ...] = field(repr=False)

    def __str__(self) -> str:
        said = {vote.voter: vote.outcome for vote in self.votes}
        answers = "; ".join(f"{voter}: {_in_short(said, voter)}" for voter in self.voters)
        return f"{self.method}: {self.needed} of {len(self.voters)} voters must agree, and they do not: {answers}"


def _in_short(said: dict[str, object], voter: str) -> str:
    if voter not in said:
        return "no answer in time"
    answer = said[voter]
    return printable(str(answer), _ANSWER_CHARACTERS_MAX)


@frozen
class FinalityViolated(RpcError):
    """A block that was declared final is not canonical any more: no decision may rest on this chain now.

    Find out which of the two is true, by nodes of your own, before the process is started again.
    """

    height: int
    final_hash: bytes
    found_hash: bytes | None
    voters: Sequence[str] = ()

    def __str__(self) -> str:
        found = "no block" if self.found_hash is None else f"0x{self.found_hash.hex()}"
        return (
            f"block {self.height} was declared final as 0x{self.final_hash.hex()}, and a majority now has {found} "
            f"there (voters: {', '.join(self.voters)}): nothing is decided until a person has looked and restarted"
        )


# JSON-RPC and EIP-1474 codes of a node that could not serve now: resource not found or unavailable, limit exceeded,
# internal error. They say nothing about the request.
_PASSING_CODES = frozenset({-32001, -32002, -32005, -32603})


def is_passing(error: RpcError) -> bool:
    """Whether the same question may be answered later: none answered, the node could not now, or voters differed."""
    if isinstance(error, NoQuorum):
        return True
    if isinstance(error, EndpointFault):
        return not isinstance(error, WrongChain)
    return isinstance(error, RpcRefused) and not isinstance(error, Reverted) and error.code in _PASSING_CODES


def fault(endpoint: str, method: str, reason: Reason) -> EndpointFault:
    """The exception for a reason; a chain mismatch gets its own class."""
    kind = WrongChain if isinstance(reason, ChainMismatch) else EndpointFault
    return kind(endpoint=endpoint, method=method, reason=reason)
