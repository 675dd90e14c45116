"""Sending signed bytes, and what the node's answer means."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from rpc import methods
from rpc.errors import RpcError, RpcRefused
from rpc.reads import Call as Question
from rpc.reads import Writes
from tayho.kernel.opaque import Opaque
from tayho.kernel.steps import step
from tayho.transactions.node_answers import classify
from tayho.transactions.types import Answer
from tayho.transactions.withholding import without_bytes


class Broadcaster:
    """The one write path (RPC-1). It never retries and never hedges: a retry is the caller's, with the same bytes."""

    def __init__(self, writes: Writes, endpoint: str) -> None:
        self._writes = writes
        self.endpoint = endpoint
        # What the node is, asked once and only for a refusal's sake; None until it has said so.
        self._client: str | None = None

    async def send(self, tx_hash: bytes, raw: Opaque) -> Answer:
        """Send the bytes once. The caller has them in the journal already (I4)."""
        (answer,) = await self.send_in_turn([(tx_hash, raw)])
        return answer

    async def send_in_turn(self, signed: Sequence[tuple[bytes, Opaque]]) -> list[Answer]:
        """Send each once, in their order, in as few requests as the endpoint takes; each has an answer of its own.

        Where a request gave none, what it carried is `unknown`: the node may have it.
        """
        step("broadcast.before_send")
        calls = [methods.send_raw_transaction(raw.reveal()) for _, raw in signed]
        answers = [await self._alone(calls[0])] if len(calls) == 1 else await self._writes.ask_in_turn(calls)
        step("broadcast.after_send")
        client = await self._client_of(answers)
        return [
            _withheld(classify(tx_hash, answer, client), raw)
            for (tx_hash, raw), answer in zip(signed, answers, strict=True)
        ]

    async def _alone(self, call: Question[bytes]) -> bytes | RpcError:
        try:
            return await self._writes.ask(call)
        except RpcError as error:
            return error

    async def _client_of(self, answers: Sequence[bytes | RpcError]) -> str | None:
        """Who said no, so that its words are read as its own. Of one that does not tell, the whole table is read."""
        if self._client is None and any(isinstance(answer, RpcRefused) for answer in answers):
            try:
                self._client = await self._writes.ask(methods.client_version())
            except RpcRefused:
                self._client = ""
            except RpcError:
                pass  # It may tell at the next refusal.
        return self._client


def _withheld(answer: Answer, raw: Opaque) -> Answer:
    """Some nodes repeat in a refusal what they were sent; what they say is stored and logged."""
    return answer if answer.detail is None else evolve(answer, detail=without_bytes(answer.detail, raw.reveal()))
