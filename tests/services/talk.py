"""What passes a proxy on one connection, cut into requests and the answers to them."""

from collections import deque
from typing import Protocol

from attrs import field, frozen


@frozen(eq=False)
class Request:
    """What a client asks for in one go, and is answered in one go. Two equal ones are two."""

    raw: bytes = field(repr=False)
    # What it asks for, in words that a test can name: the scripts, the statements. Empty for the opening of a
    # connection.
    labels: tuple[str, ...] = ()


@frozen
class Answer:
    """A piece of what the server says, and the request that it answers; None where nobody had asked."""

    raw: bytes = field(repr=False)
    request: Request | None


class Talk(Protocol):
    """One connection's protocol. It holds back what is not whole yet, and loses nothing."""

    # Requests whose answer is not complete, the oldest first.
    unanswered: deque[Request]

    def asked(self, chunk: bytes) -> list[Request]:
        """The requests that this chunk completes."""
        ...

    def answered(self, chunk: bytes) -> list[Answer]:
        """The answers that this chunk completes."""
        ...


class OpaqueTalk:
    """No known protocol: each chunk is a request, and whatever comes back answers the last one."""

    def __init__(self) -> None:
        self.unanswered: deque[Request] = deque(maxlen=1)

    def asked(self, chunk: bytes) -> list[Request]:
        self.unanswered.append(Request(chunk))
        return [self.unanswered[0]]

    def answered(self, chunk: bytes) -> list[Answer]:
        return [Answer(chunk, self.unanswered[0] if self.unanswered else None)]
