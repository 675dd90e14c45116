"""What an endpoint may do to a schedule: lose and forge the answers to sends, and lie about the chain."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from eth_utils.crypto import keccak

from tests.rpc.faulty_server import Behaviour, ConnectionDone, Request
from tests.rpc.front.behaviours import refusing, rewording
from tests.rpc.front.front import Front, Json, Node, answer_with

SEND = "eth_sendRawTransaction"


def _refused(message: str, code: int = -32000) -> Callable[[Node], Behaviour]:
    """The node refuses, and has not taken the bytes."""

    def of(_: Node) -> Behaviour:
        async def behave(request: Request) -> None:
            error = {"code": code, "message": message}
            await answer_with(request, [{"jsonrpc": "2.0", "id": call["id"], "error": error} for call in request.calls])

        return behave

    return of


def _lose_answer(node: Node) -> Behaviour:
    async def behave(request: Request) -> None:
        await node.answers(request.calls)
        raise ConnectionDone

    return behave


def _lose_request(_: Node) -> Behaviour:
    async def behave(_: Request) -> None:
        raise ConnectionDone

    return behave


def _acknowledge_and_forget(_: Node) -> Behaviour:
    """The node says yes, and never had it."""

    async def behave(request: Request) -> None:
        await answer_with(
            request,
            [
                {"jsonrpc": "2.0", "id": call["id"], "result": f"0x{keccak(hexstr=call['params'][0]).hex()}"}
                for call in request.calls
            ],
        )

    return behave


def _take_and_refuse(node: Node) -> Behaviour:
    """The node takes the bytes and says that it knew them."""

    async def behave(request: Request) -> None:
        await node.answers(request.calls)
        await _refused("already known")(node)(request)

    return behave


def _busy(_: Node) -> Behaviour:
    async def behave(request: Request) -> None:
        await request.respond(b"slow down", status=429)

    return behave


def _garbage(_: Node) -> Behaviour:
    async def behave(request: Request) -> None:
        await request.respond(b"<html>bad gateway</html>", status=502)

    return behave


# What becomes of the next sends. Only some of them reach the node, and no answer proves which.
WRITE_FAULTS: dict[str, Callable[[Node], Behaviour]] = {
    "lose_answer": _lose_answer,
    "lose_request": _lose_request,
    "forget": _acknowledge_and_forget,
    "known": _take_and_refuse,
    "false_known": _refused("already known"),
    "false_nonce_too_low": _refused("nonce too low: next nonce 7, tx nonce 3"),
    "false_nonce_too_high": _refused("nonce too high"),
    "false_underpriced": _refused("replacement transaction underpriced"),
    "false_funds": _refused("insufficient funds for gas * price + value: balance 0, tx cost 1"),
    "false_cap": _refused("tx fee (1.10 ether) exceeds the configured cap (1.00 ether)"),
    "pool_full": _refused("txpool is full"),
    "gibberish": _refused("the moon is in the wrong house", -32099),
    "busy": _busy,
    "garbage": _garbage,
}


def lose_sends(front: Front, fault: str, times: int) -> None:
    """Let the next sends through this front end so."""
    front.arm(WRITE_FAULTS[fault](front.nodes.true), {SEND}, range(1, times + 1))


def _random_hash() -> str:
    return f"0x{secrets.token_hex(32)}"


def _moved(_: Json, result: Any) -> object:
    """The receipt, in a block that is not there."""
    return result and {**result, "blockHash": _random_hash(), "logs": []}


def _failed(_: Json, result: Any) -> object:
    return result and {**result, "status": "0x0", "logs": []}


def _forked(_: Json, result: Any) -> object:
    return result and {**result, "hash": _random_hash()}


def _far_ahead(_: Json, result: Any) -> object:
    return result and {**result, "number": hex(int(result["number"], 16) + 50)}


def _nothing(_: Json, __: Any) -> object:
    return None


def _nonce_ahead(_: Json, result: Any) -> object:
    return hex(int(result, 16) + 3)


def _zero(_: Json, __: Any) -> object:
    return "0x0"


# What the one endpoint that lies says of the chain, for as long as it lies. It may also be the one that all send to.
LIES: dict[str, Callable[[Front], None]] = {
    "no_receipts": rewording(_nothing, {"eth_getTransactionReceipt"}),
    "no_transactions": rewording(_nothing, {"eth_getTransactionByHash"}),
    "moved_receipts": rewording(_moved, {"eth_getTransactionReceipt"}),
    "failed_receipts": rewording(_failed, {"eth_getTransactionReceipt"}),
    "forked": rewording(_forked, {"eth_getBlockByNumber"}),
    "far_ahead": rewording(_far_ahead, {"eth_getBlockByNumber"}),
    "nonces_ahead": rewording(_nonce_ahead, {"eth_getTransactionCount"}),
    "nonces_zero": rewording(_zero, {"eth_getTransactionCount"}),
    "no_balance": rewording(_zero, {"eth_getBalance"}),
    "reverts": refusing({"code": 3, "message": "execution reverted", "data": "0x"}, {"eth_call", "eth_estimateGas"}),
    "refuses": refusing({"code": -32603, "message": "internal error"}),
}
