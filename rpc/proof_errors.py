"""What can come of a proof that is no proof: refuted, or impossible here."""

from __future__ import annotations

from attrs import field, frozen

from rpc.errors import RpcError


@frozen
class ProofRefuted(RpcError):
    """An answer contradicts the block it is about, whoever gave it: it is false, not a matter of opinion.

    `subject` is what the answer is about, `what` the part that does not match, `expected` what the block (or the rest
    of the answer) makes of it, `found` what was told.
    """

    subject: str
    what: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.what} is {self.found}, but the block proves {self.expected}"


@frozen
class Unprovable(RpcError):
    """The answer can be neither proven nor refuted here: something that the proof needs is not told or not known.

    Whether it is true must be put to the vote.
    """

    detail: str

    def __str__(self) -> str:
        return f"cannot be proven: {self.detail}"


@frozen
class NotProven(RpcError):
    """No endpoint gave a proof, and votes did not decide either. `reasons` names each endpoint and why."""

    subject: str
    reasons: tuple[str, ...] = field(repr=False)

    def __str__(self) -> str:
        return f"{self.subject}: nothing is proven ({'; '.join(self.reasons) or 'nobody was asked'})"
