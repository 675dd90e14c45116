"""How many questions go into one request, and when a provider's refusal means "fewer". Pure, but for what is learned.

There is no agreed way to refuse the size of a batch: HTTP 413; one error for all (erigon, nethermind); one error in
an array under the first question's id (geth); an error per question that no longer fitted (geth, jsonrpsee). What
they share is the wording.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

from rpc.envelopes import Answer, NotAnswered, Refusal
from rpc.quantities import Unreadable

T = TypeVar("T")

_TOO_MUCH = r"(?:large|big|limit\w*|exceed\w*|max\w*|size|many|more\ than|not\ (?:support\w*|allowed))"
_SIZE_WORDING = re.compile(
    rf"""\bbatch\w*\b .* \b{_TOO_MUCH}\b
      | \b{_TOO_MUCH}\b .* \bbatch\w*\b
      | \b(?:request|response|content|entity|payload)\b .* \btoo\ (?:large|big)\b
    """,
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
HTTP_CONTENT_TOO_LARGE = 413

_NOT_UNDERSTOOD = frozenset({-32600, -32700})  # JSON-RPC 2.0: invalid request, parse error


def refuses_size(refusal: Refusal) -> bool:
    """Whether an error says that there was too much in one request."""
    return _SIZE_WORDING.search(refusal.message) is not None


def refuses_batch(refusal: Refusal) -> bool:
    """Whether one error in answer to a whole batch says that it was too large, or that batches are not understood."""
    return refusal.code in _NOT_UNDERSTOOD or refuses_size(refusal)


def refused_for_size(answers: Sequence[Answer | Unreadable]) -> frozenset[int]:
    """Which questions of a batch to ask again in smaller company: those refused for size, and those left out beside."""
    refused = {index for index, answer in enumerate(answers) if isinstance(answer, Refusal) and refuses_size(answer)}
    left_out = {index for index, answer in enumerate(answers) if isinstance(answer, NotAnswered)}
    return frozenset(refused | left_out if refused else ())


def chunks(items: Sequence[T], size: int) -> list[Sequence[T]]:
    """The items in order, at most `size` together."""
    return [items[start : start + size] for start in range(0, len(items), size)]


def half(items: int) -> int:
    """The size of the larger half; of two or more it is smaller than the whole, so that halving ends at one."""
    return (items + 1) // 2


class BatchSize:
    """The number of questions per request: as configured, less once the provider has refused that many.

    It does not grow again: a provider's limit is a setting of theirs, and each try above it costs a request.
    """

    def __init__(self, items_max: int) -> None:
        if items_max < 1:
            raise ValueError(f"a batch holds at least one question: {items_max}")
        self.items_max = items_max

    def halve(self, refused_items: int) -> int:
        """Learn that `refused_items` (at least two) were too many; returns the size to try next."""
        self.items_max = min(self.items_max, half(refused_items))
        return self.items_max
