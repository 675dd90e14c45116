"""One exchange with an endpoint: questions out, untyped answers back, the chain checked on the way."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

import trio

from rpc import envelopes, methods
from rpc.answers import answer_in, value_of
from rpc.chain_guard import ChainGuard, may_reconnect
from rpc.envelopes import Answer, Refusal
from rpc.errors import ChainMismatch, DeadlinePassed, EndpointFault, Malformed, Reason, RpcRefused, fault
from rpc.observation import EndpointStats, Observation
from rpc.quantities import Unreadable
from rpc.reads import Call
from rpc.transport import ExchangeFailed, HttpTransport, Progress
from rpc.urls import EndpointUrl

R = TypeVar("R")
T = TypeVar("T")


class Exchanges:
    """Exchanges with one endpoint of one chain.

    Every answer is checked against the configured chain: before the first question, and again before an answer that
    came over a new connection is handed on (RPC-6).
    """

    def __init__(
        self,
        transport: HttpTransport,
        url: EndpointUrl,
        *,
        chain_id: int,
        deadline_seconds: float,
        observer: Callable[[Observation], None] | None,
    ) -> None:
        self.stats = EndpointStats(url.shown, observer)
        self._transport = transport
        self._url = url
        self._chain_id = chain_id
        self._deadline_seconds = deadline_seconds
        self._guard = ChainGuard()
        # Never used twice, so that an answer to an earlier question cannot pass for one to a later.
        self._ids = itertools.count(1)

    @contextmanager
    def deadline(self, method: str, seconds: float | None = None) -> Generator[Progress]:
        """Everything inside within one deadline, the endpoint's own or less. Raises EndpointFault when it passes."""
        allowed = self._deadline_seconds if seconds is None else min(max(seconds, 0.0), self._deadline_seconds)
        progress = Progress()
        with trio.move_on_after(allowed) as scope:
            yield progress
        if scope.cancelled_caught:
            raise self.fault_of(method, DeadlinePassed(allowed, progress.stage))

    def value_of(self, call: Call[T], answer: Answer) -> T:
        """The value of an answer. Raises RpcRefused for a refusal, EndpointFault for a value of another shape."""
        try:
            return value_of(call, answer, self._url)
        except Unreadable as error:
            raise self.malformed(call.method, error) from self._url.shown_cause(error)

    def fault_of(self, method: str, reason: Reason) -> EndpointFault:
        """The fault for a reason; one that may end in a reconnection also voids the last check of the chain."""
        if may_reconnect(reason):
            self._guard.distrust()
        return fault(self._url.shown, method, reason)

    def malformed(self, method: str, error: Unreadable) -> EndpointFault:
        """The fault for an answer, or a part of it, that could not be read."""
        return self.fault_of(method, Malformed(self._url.redact(str(error))))

    async def single(self, call: Call[object], progress: Progress) -> Answer:
        """Ask one question. Raises EndpointFault."""
        call_id = next(self._ids)
        body = envelopes.single_request(call_id, call)
        return await self._checked(call.method, body, partial(envelopes.read_answer, call_id=call_id), progress)

    async def batch(self, calls: Sequence[Call[object]], progress: Progress) -> Refusal | list[Answer | Unreadable]:
        """Ask several questions in one request: their answers in order, or the refusal of all. Raises EndpointFault."""
        questions = {next(self._ids): call for call in calls}
        body = envelopes.batch_request(list(questions.items()))
        method = f"batch of {len(calls)}"
        answers = await self._checked(method, body, partial(envelopes.read_batch, call_ids=questions), progress)
        return answers if isinstance(answers, Refusal) else [answers[call_id] for call_id in questions]

    async def _checked(self, method: str, body: bytes, read: Callable[[object], R], progress: Progress) -> R | Refusal:
        await self._ensure_chain(progress)
        answer, connection = await self._post(method, body, read, progress)
        if self._guard.notice(connection):
            await self._ensure_chain(progress)
        return answer

    async def _ensure_chain(self, progress: Progress) -> None:
        async def probe() -> None:
            with self.stats.watching(_CHAIN_ID.method):
                await self._probe()

        progress.stage = "chain check"
        await self._guard.ensure(probe)

    async def _probe(self) -> None:
        """Ask the chain id, past the guard. Raises WrongChain, or EndpointFault when there is no usable answer."""
        call_id = next(self._ids)
        body = envelopes.single_request(call_id, _CHAIN_ID)
        read = partial(envelopes.read_answer, call_id=call_id)
        answer, connection = await self._post(_CHAIN_ID.method, body, read, Progress())
        self._guard.probed(connection)
        try:
            found = self.value_of(_CHAIN_ID, answer)
        except RpcRefused as error:
            detail = f"refused to tell its chain id (code {error.code}: {error.message})"
            raise self.fault_of(_CHAIN_ID.method, Malformed(detail)) from error
        if found != self._chain_id:
            raise self.fault_of(_CHAIN_ID.method, ChainMismatch(expected=self._chain_id, found=found))

    async def _post(
        self, method: str, body: bytes, read: Callable[[object], R], progress: Progress
    ) -> tuple[R | Refusal, object]:
        """An answer and the connection it came over. Here foreign trouble becomes an EndpointFault."""
        try:
            http = await self._transport.post(body, progress)
            return answer_in(http, read, datetime.now(UTC)), http.connection
        except ExchangeFailed as error:
            raise self.fault_of(method, error.reason) from error
        except Unreadable as error:
            raise self.malformed(method, error) from self._url.shown_cause(error)


_CHAIN_ID = methods.chain_id()
