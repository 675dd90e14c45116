"""Sending signed bytes, and what the node's answer means."""

from __future__ import annotations

from rpc import methods
from rpc.errors import RpcError, RpcRefused
from rpc.reads import Reads
from tayho.kernel.opaque import Opaque
from tayho.kernel.steps import step
from tayho.transactions.types import Answer

# geth, reth, erigon: "already known"; anvil: "transaction already imported"; besu, hardhat: "known transaction".
# `unknown transaction` is another matter, hence the word boundary kept by hand.
_KNOWN = ("already known", "already imported", "alreadyknown", "already exists", "existing txn with same hash")


def classify(tx_hash: bytes, answer: bytes | RpcError) -> Answer:
    """Read an answer. Whatever is not surely a yes leaves the bytes in the journal and the state as it is (TX-4)."""
    match answer:
        case bytes():
            if answer == tx_hash:
                return Answer("accepted")
            return Answer("unknown", f"the node answered with another hash: {answer.hex()}")
        case RpcRefused():
            words = answer.message.lower()
            if any(known in words for known in _KNOWN) or words.startswith("known transaction"):
                return Answer("already_known", answer.message)
            return Answer("refused", f"{answer.code}: {answer.message}")
        case _:
            return Answer("unknown", str(answer))


class Broadcaster:
    """The one write path (RPC-1). It never retries and never hedges: a retry is the caller's, with the same bytes."""

    def __init__(self, writes: Reads, endpoint: str) -> None:
        self._writes = writes
        self.endpoint = endpoint

    async def send(self, tx_hash: bytes, raw: Opaque) -> Answer:
        """Send the bytes once. The caller has them in the journal already (I4)."""
        try:
            answer: bytes | RpcError = await self._writes.ask(methods.send_raw_transaction(raw.reveal()))
        except RpcError as error:
            answer = error
        step("broadcast.after_send")
        return classify(tx_hash, answer)
