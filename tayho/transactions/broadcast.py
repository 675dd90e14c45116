"""Sending signed bytes, and what the node's answer means."""

from __future__ import annotations

from rpc import methods
from rpc.errors import RpcError, RpcRefused
from rpc.reads import Reads
from tayho.kernel.opaque import Opaque
from tayho.kernel.steps import step
from tayho.transactions.node_answers import classify
from tayho.transactions.types import Answer


class Broadcaster:
    """The one write path (RPC-1). It never retries and never hedges: a retry is the caller's, with the same bytes."""

    def __init__(self, writes: Reads, endpoint: str) -> None:
        self._writes = writes
        self.endpoint = endpoint
        # What the node is, asked once and only for a refusal's sake; None until it has said so.
        self._client: str | None = None

    async def send(self, tx_hash: bytes, raw: Opaque) -> Answer:
        """Send the bytes once. The caller has them in the journal already (I4)."""
        try:
            answer: bytes | RpcError = await self._writes.ask(methods.send_raw_transaction(raw.reveal()))
        except RpcError as error:
            answer = error
        step("broadcast.after_send")
        return classify(tx_hash, answer, await self._client_of(answer))

    async def _client_of(self, answer: bytes | RpcError) -> str | None:
        """Who said no, so that its words are read as its own. Of one that does not tell, the whole table is read."""
        if self._client is None and isinstance(answer, RpcRefused):
            try:
                self._client = await self._writes.ask(methods.client_version())
            except RpcRefused:
                self._client = ""
            except RpcError:
                pass  # It may tell at the next refusal.
        return self._client
