"""What a front may do to a request beyond `tests.rpc.faulty_server`: with its socket, or with a true answer."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable, Collection
from typing import Any, TypeAlias

import trio

from tests.rpc.faulty_server import Behaviour, ConnectionDone, Request, head, refuse_with
from tests.rpc.front.front import Front, Json, answer_with

Spoil: TypeAlias = "Callable[[Json, Json], object]"
"""From a call and its true envelope to the envelope that is sent; a string is sent as JSON text as it stands."""

Reword: TypeAlias = "Callable[[Json, Any], object]"
"""From a call and its true result to the result that is sent."""

Arming: TypeAlias = "Callable[[Front], None]"


def always(behaviour: Behaviour, methods: Collection[str] | None = None) -> Arming:
    """Behave so at every request that asks one of the methods."""

    def arm(front: Front) -> None:
        front.arm(behaviour, methods)

    return arm


def spoiling(spoil: Spoil, methods: Collection[str] | None = None) -> Arming:
    """Spoil the true envelope of every call of the methods."""

    def arm(front: Front) -> None:
        async def behave(request: Request) -> None:
            answers = await front.honest(request)
            pairs = zip(request.calls, answers, strict=True)
            await answer_with(
                request, [spoil(call, answer) if _fits(call, methods) else answer for call, answer in pairs]
            )

        front.arm(behave, methods)

    return arm


def rewording(reword: Reword, methods: Collection[str] | None = None) -> Arming:
    """Put another result into the true envelope of every call of the methods."""

    def spoil(call: Json, answer: Json) -> Json:
        return {**answer, "result": reword(call, answer["result"])} if "result" in answer else answer

    return spoiling(spoil, methods)


def raw_result(text: str, methods: Collection[str] | None = None) -> Arming:
    """Put this JSON text in the place of every result."""
    return spoiling(lambda call, _: f'{{"jsonrpc":"2.0","id":{json.dumps(call["id"])},"result":{text}}}', methods)


def refusing(error: object, methods: Collection[str] | None = None, *, status: int = 200) -> Arming:
    """Answer every call of the methods with this JSON-RPC error."""
    return always(refuse_with(error, status=status), methods)


def forked(methods: Collection[str] | None = None) -> Arming:
    """Tell the forked chain's story, in every answer or in those of the methods."""

    def arm(front: Front) -> None:
        async def behave(request: Request) -> None:
            stories = zip(request.calls, await front.honest(request), await front.forked(request), strict=True)
            await answer_with(request, [lie if _fits(call, methods) else truth for call, truth, lie in stories])

        front.arm(behave, methods)

    return arm


def reordered(front: Front) -> None:
    """Answer a batch in reverse; single questions honestly."""

    async def behave(request: Request) -> None:
        await answer_with(request, (await front.honest(request))[::-1])

    front.arm(behave)


def in_batches(spoil: Callable[[list[Json]], list[Json] | Json]) -> Arming:
    """Spoil the array of a batch as a whole; single questions are answered honestly."""

    def arm(front: Front) -> None:
        async def behave(request: Request) -> None:
            answers = await front.honest(request)
            if request.is_batch:
                await request.respond_json(spoil(answers))
            else:
                await answer_with(request, answers)

        front.arm(behave)

    return arm


def refuses_connections(front: Front) -> None:
    """Nobody listens, and who was connected is not any more."""
    front.door.shut()


def accepts_and_closes(front: Front) -> None:
    """Every new connection is closed at once, and so is the next request on an old one."""

    async def close(request: Request) -> None:
        raise ConnectionDone

    front.turns_away = True
    front.arm(close)


def redirects(status: int) -> Arming:
    """Send everyone elsewhere, where another story is told."""

    def arm(front: Front) -> None:
        async def behave(request: Request) -> None:
            if request.target == "/elsewhere":
                await answer_with(request, await front.forked(request))
            else:
                await request.respond(b"", status=status, headers={"location": f"{front.url}/elsewhere"})

        front.arm(behave)

    return arm


def answers_at_length(pad: int, *, extra: int = 0) -> Arming:
    """Chunked: `pad` bytes of white space, and then the true answer; or a content length that is wrong by `extra`."""

    def arm(front: Front) -> None:
        async def behave(request: Request) -> None:
            answers = await front.honest(request)
            body = json.dumps(answers if request.is_batch else answers[0]).encode()
            if extra:
                await request.send(head(200, {"content-length": str(len(body) + extra)}) + body)
                raise ConnectionDone
            await request.send(head(200, {"transfer-encoding": "chunked", "content-type": "application/json"}))
            space = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
            for _ in range(pad // 0x100000):
                await request.send(space)
            await request.send(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))

        front.arm(behave)

    return arm


async def reset_in_body(request: Request) -> None:
    """Half an answer, and then a reset instead of an end."""
    await request.send(head(200, {"content-length": "100"}) + b'{"jsonrpc":"2.0",')
    if isinstance(request.stream, trio.SocketStream):
        request.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raise ConnectionDone


def another_chain_after_reconnection(front: Front) -> None:
    """Drop the connection at the next question; behind the new one there is another chain."""

    async def drop(request: Request) -> None:
        another_chain(front)
        raise ConnectionDone

    front.arm(drop)


def another_chain(front: Front) -> None:
    """Chain id 1, and another story."""

    async def behave(request: Request) -> None:
        answers = await front.forked(request)
        pairs = zip(request.calls, answers, strict=True)
        wrong = {"eth_chainId": "0x1", "net_version": "1"}
        await answer_with(
            request, [{**answer, "result": wrong.get(call["method"], answer.get("result"))} for call, answer in pairs]
        )

    front.arm(behave)


def claiming_head(head: Callable[[], int]) -> Arming:
    """Tell this height as the head, by number and by the latest block, which above the true head is a made up one."""

    def arm(front: Front) -> None:
        async def behave(request: Request) -> None:
            await answer_with(request, [await claimed(call) for call in request.calls])

        async def claimed(call: Json) -> Json:
            (answer,) = await front.nodes.true.answers([call])
            is_latest = call["method"] == "eth_getBlockByNumber" and call["params"][0] == "latest"
            if not is_latest and call["method"] != "eth_blockNumber":
                return answer
            height = head()
            if not is_latest:
                return {**answer, "result": hex(height)}
            (block,) = await front.nodes.true.answers([{**call, "params": [hex(height), *call["params"][1:]]}])
            return {**answer, "result": block.get("result") or {**answer["result"], "number": hex(height)}}

        front.arm(behave, {"eth_blockNumber", "eth_getBlockByNumber"})

    return arm


def lagging(blocks: int) -> Arming:
    """A node that is so many blocks behind, and consistent: its head, its tags, and what it does not have yet."""

    def arm(front: Front) -> None:
        async def behave(request: Request) -> None:
            await answer_with(request, [await behind(call) for call in request.calls])

        async def behind(call: Json) -> object:
            truth = (await front.nodes.true.answers([{**call, "method": "eth_blockNumber", "params": []}]))[0]
            edge = int(truth["result"], 16) - blocks
            call = {**call, "params": [_not_above(edge, param) for param in call.get("params", [])]}
            if call["method"] == "eth_blockNumber":
                return {**truth, "result": hex(edge)}
            if any([await height(param) > edge for param in call.get("params", [])]):
                return _unknown(call)
            (answer,) = await front.nodes.true.answers([call])
            return _unknown(call) if _number_of(_place(answer.get("result"))) > edge else answer

        async def height(param: object) -> int:
            if isinstance(param, dict) and "blockHash" in param:
                asked = {
                    "jsonrpc": "2.0",
                    "id": 0,
                    "method": "eth_getBlockByHash",
                    "params": [param["blockHash"], False],
                }
                return _number_of(_place((await front.nodes.true.answers([asked]))[0]["result"]))
            return _number_of(param)

        front.arm(behave)

    return arm


def _fits(call: Json, methods: Collection[str] | None) -> bool:
    return methods is None or call["method"] in methods


def _not_above(edge: int, param: object) -> object:
    return hex(edge) if param in ("latest", "pending", "safe", "finalized") else param


def _number_of(param: object) -> int:
    is_quantity = isinstance(param, str) and param.startswith("0x") and 2 < len(param) < 18
    return int(str(param), 16) if is_quantity else -1


def _place(result: object) -> object:
    """The height that an answer is about."""
    if isinstance(result, dict):
        place: object = result.get("blockNumber") or result.get("number")
        return place
    return None


def _unknown(call: Json) -> Json:
    envelope: Json = {"jsonrpc": "2.0", "id": call["id"]}
    if call["method"].startswith(("eth_getBlock", "eth_getTransactionBy", "eth_getTransactionReceipt")):
        return {**envelope, "result": None}
    return {**envelope, "error": {"code": -32000, "message": "header not found"}}
