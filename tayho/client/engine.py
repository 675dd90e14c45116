"""The client of an engine, for a service of your own: Trio or asyncio, one object, many tasks."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from uuid import UUID

import anyio

from tayho.client.answers import progress_from, submission_of, taken_from
from tayho.client.errors import AnswerMalformed, NotFinalInTime
from tayho.client.exchange import Exchange
from tayho.client.following import Follower
from tayho.client.retrying import answered
from tayho.client.types import IntentProgress, Taken
from tayho.intents.signing import digest_of
from tayho.intents.types import IntentDomain, SignedIntent

PATH = "/v1/intents"
CALL_SECONDS = 30.0
ATTEMPT_SECONDS = 10.0
WAIT_SECONDS = 300.0


class EngineClient:
    """Submits signed intents and tells what becomes of them.

        async with EngineClient.open("https://engine.example", domain) as engine:
            taken = await engine.submit(signed)
            progress = await engine.wait(taken.id)

    Every call may be cancelled, and made again: nothing is recorded twice, and nothing of it is left behind here.
    """

    def __init__(self, exchange: Exchange, domain: IntentDomain, call_seconds: float) -> None:
        self._exchange = exchange
        self._domain = domain
        self._call_seconds = call_seconds

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        url: str,
        domain: IntentDomain,
        *,
        call_seconds: float = CALL_SECONDS,
        attempt_seconds: float = ATTEMPT_SECONDS,
        tls: ssl.SSLContext | None = None,
    ) -> AsyncGenerator[EngineClient]:
        """`domain` is the protocol that the intents are for. A call gives up after `call_seconds`, and asks again
        within them when nothing was heard for `attempt_seconds`. `tls` None means the system's trusted roots.

        Connects at the first call. Raises EngineUrlRefused.
        """
        async with Exchange.open(url, attempt_seconds=attempt_seconds, tls=tls) as exchange:
            yield cls(exchange, domain, call_seconds)

    async def submit(self, signed: SignedIntent) -> Taken:
        """Have the intent recorded. The digest names it: a lost answer is asked for again, and so may you, at any time.

        Raises EngineRefused (each code has its class), EngineUnavailable (it may be recorded: submit it again),
        AnswerMalformed.
        """
        body = submission_of(signed, self._domain)
        answer = await answered(lambda: self._exchange.ask("POST", PATH, body), "take the intent", self._call_seconds)
        taken = taken_from(answer.body)
        digest = digest_of(signed.intent, self._domain)
        if taken.digest != digest:
            raise AnswerMalformed(
                f"the engine took an intent 0x{taken.digest.hex()} where 0x{digest.hex()} was signed: it serves "
                "another protocol or chain than the client was opened for"
            )
        return taken

    async def status(self, intent_id: UUID) -> IntentProgress:
        """How far the intent has come. Raises IntentUnknown, EngineUnavailable, AnswerMalformed."""
        answer = await answered(
            lambda: self._exchange.ask("GET", f"{PATH}/{intent_id}"), "tell of the intent", self._call_seconds
        )
        return progress_from(answer.body)

    async def wait(
        self,
        intent_id: UUID,
        *,
        seconds: float = WAIT_SECONDS,
        on_change: Callable[[IntentProgress], None] | None = None,
    ) -> IntentProgress:
        """Wait for the intent's end, and tell `on_change` of each change on the way that is heard of.

        It listens to the engine's events; where they break off it goes on behind the last one, and where there are none
        it asks now and then. Raises NotFinalInTime, IntentUnknown, AnswerMalformed.
        """
        follower = Follower(self._exchange, f"{PATH}/{intent_id}", lambda: self.status(intent_id), on_change)
        with anyio.move_on_after(seconds):
            return await follower.follow()
        raise NotFinalInTime(intent_id, seconds, follower.last)
