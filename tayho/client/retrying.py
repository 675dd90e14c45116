"""Asking again until there is an answer that counts, within the call's time.

Everything that the client asks may be asked again: reading changes nothing, and a submission is named by its digest.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

import anyio
from attrs import define, field

from tayho.client.answers import problem_from
from tayho.client.errors import EngineUnavailable
from tayho.client.exchange import HttpAnswer, Unanswered
from tayho.client.refusals import EngineRefused, refusal_of

PAUSE_SECONDS_MIN = 0.1
PAUSE_SECONDS_MAX = 5.0
# Of these the engine, or what stands before it, says something else later.
PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})


@define
class Pauses:
    """How long to wait between questions: twice as long each time, and never all at the same moment."""

    _next: float = field(default=PAUSE_SECONDS_MIN, alias="_next")

    def take(self, at_least: float | None = None) -> float:
        """Seconds of the next pause; what the engine asks for is never undercut."""
        base, self._next = self._next, min(2 * self._next, PAUSE_SECONDS_MAX)
        spread = random.uniform(0.5, 1)  # noqa: S311 - spreads clients over time, guards nothing
        return base * spread if at_least is None else at_least + base * spread

    def reset(self) -> None:
        self._next = PAUSE_SECONDS_MIN


async def answered(ask: Callable[[], Awaitable[HttpAnswer]], what: str, seconds: float) -> HttpAnswer:
    """The first answer that is neither lost nor passing.

    Raises EngineRefused where the engine says no, EngineUnavailable when `seconds` are over or are sure to pass.
    """
    pauses, ends_at = Pauses(), anyio.current_time() + seconds
    met, retry_after = Exception("it was not reached"), None
    with anyio.CancelScope(deadline=ends_at):
        while True:
            try:
                answer = await ask()
            except Unanswered as error:
                met, retry_after = error, None
            else:
                if answer.status not in PASSING:
                    return _accepted(answer)
                met, retry_after = _refusal(answer), answer.retry_after
            pause = pauses.take(retry_after)
            if anyio.current_time() + pause >= ends_at:
                break
            await anyio.sleep(pause)
    raise EngineUnavailable(what, seconds, str(met), retry_after) from met


def _accepted(answer: HttpAnswer) -> HttpAnswer:
    if 200 <= answer.status < 300:
        return answer
    raise _refusal(answer)


def _refusal(answer: HttpAnswer) -> EngineRefused:
    return refusal_of(problem_from(answer.status, answer.body))
