"""Asking many questions: in batches, in smaller ones where a provider refuses the size, each question settled once."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, TypeAlias

import trio

from rpc.batches import HTTP_CONTENT_TOO_LARGE, BatchSize, chunks, half, refused_for_size, refuses_batch
from rpc.envelopes import Answer, Refusal
from rpc.errors import EndpointFault, HttpStatus, RpcError
from rpc.exchange import Exchanges
from rpc.observation import outcome_of
from rpc.quantities import Unreadable
from rpc.reads import Call
from rpc.transport import Progress

Item: TypeAlias = tuple[int, Call[Any]]
"""A question and its place among those asked together."""


class Chunk:
    """Questions that share one deadline, and one request unless the provider refuses so many.

    Invariant: a question is in `outcomes`, by its place, exactly when it is settled: with its value, its refusal or a
    fault. Only unsettled questions are ever sent again, and a part sent again is smaller than the part before.
    """

    def __init__(
        self, exchanges: Exchanges, size: BatchSize, items: Sequence[Item], outcomes: dict[int, object]
    ) -> None:
        self._exchanges = exchanges
        self._size = size
        self._items = items
        self._outcomes = outcomes
        self._started = trio.current_time()

    async def ask(self, deadline_seconds: float | None = None) -> None:
        """Settle every question, by the deadline with a fault.

        Raises nothing; a cancelled caller leaves questions unsettled.
        """
        try:
            with self._exchanges.deadline("batch", deadline_seconds) as progress:
                await self._ask_in_parts(progress)
        except EndpointFault as late:
            self._settle_all(self._items, late)
        finally:
            for place, call in self._items:
                if place not in self._outcomes:
                    self._note(call, "cancelled", len(self._items))

    async def _ask_in_parts(self, progress: Progress) -> None:
        waiting = deque([self._items])
        while waiting:
            part = waiting.popleft()
            if len(part) == 1:
                await self._ask_alone(part[0], progress)
            else:
                waiting.extendleft(reversed(await self._ask_together(part, progress)))

    async def _ask_alone(self, item: Item, progress: Progress) -> None:
        place, call = item
        try:
            self._settle_answer(place, call, await self._exchanges.single(call, progress), 1)
        except EndpointFault as fault:
            self._settle(place, call, fault, 1)

    async def _ask_together(self, part: Sequence[Item], progress: Progress) -> list[Sequence[Item]]:
        """Ask in one request; returns the parts to ask again in smaller ones."""
        try:
            answers = await self._exchanges.batch([call for _, call in part], progress)
        except EndpointFault as fault:
            if isinstance(fault.reason, HttpStatus) and fault.reason.status == HTTP_CONTENT_TOO_LARGE:
                return chunks(part, self._size.halve(len(part)))
            self._settle_all(part, fault)
            return []
        if isinstance(answers, Refusal):
            if refuses_batch(answers):
                return chunks(part, self._size.halve(len(part)))
            for place, call in part:
                self._settle_answer(place, call, answers, len(part))
            return []
        return self._settle_answers(part, answers)

    def _settle_answers(self, part: Sequence[Item], answers: Sequence[Answer | Unreadable]) -> list[Sequence[Item]]:
        too_much = refused_for_size(answers)
        for index, ((place, call), answer) in enumerate(zip(part, answers, strict=True)):
            if index not in too_much:
                self._settle_answer(place, call, answer, len(part))
        if not too_much:
            return []
        # Where some answers fitted, the others were large, not many: no lesson about the number of questions.
        smaller = self._size.halve(len(part)) if len(too_much) == len(part) else half(len(part))
        return chunks([item for index, item in enumerate(part) if index in too_much], smaller)

    def _settle_answer(self, place: int, call: Call[Any], answer: Answer | Unreadable, batch_items: int) -> None:
        outcome: object
        if isinstance(answer, Unreadable):
            outcome = self._exchanges.malformed(call.method, answer)
        else:
            try:
                outcome = self._exchanges.value_of(call, answer)
            except RpcError as error:
                outcome = error
        self._settle(place, call, outcome, batch_items)

    def _settle_all(self, items: Sequence[Item], fault: EndpointFault) -> None:
        """Settle with one fault whatever it hit; what was settled before stays as it is."""
        for place, call in items:
            if place not in self._outcomes:
                self._settle(place, call, fault.about(call.method), len(items))

    def _settle(self, place: int, call: Call[Any], outcome: object, batch_items: int) -> None:
        self._outcomes[place] = outcome
        self._note(call, outcome_of(outcome) if isinstance(outcome, RpcError) else "answered", batch_items)

    def _note(self, call: Call[Any], outcome: str, batch_items: int) -> None:
        self._exchanges.stats.note(call.method, outcome, trio.current_time() - self._started, batch_items)
