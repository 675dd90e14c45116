"""Sending signed bytes, and what the node's answer means."""

from __future__ import annotations

from collections.abc import Sequence

from rpc import methods
from rpc.errors import RpcError, RpcRefused
from rpc.reads import Call as Question
from rpc.reads import Writes
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

    def __init__(self, writes: Writes, endpoint: str) -> None:
        self._writes = writes
        self.endpoint = endpoint

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
        return [classify(tx_hash, answer) for (tx_hash, _), answer in zip(signed, answers, strict=True)]

    async def _alone(self, call: Question[bytes]) -> bytes | RpcError:
        try:
            return await self._writes.ask(call)
        except RpcError as error:
            return error
