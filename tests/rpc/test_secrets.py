"""No key of an RPC URL reaches a log, a repr, an exception or a traceback (RPC-10)."""

from __future__ import annotations

import logging
import traceback

import pytest

from rpc import methods
from rpc.endpoint import Endpoint
from rpc.errors import RpcError
from rpc.observation import Observation
from tests.rpc import faulty_server as faulty
from tests.rpc.faulty_server import CHAIN_ID, Behaviour, FaultyServer

KEY = "4f1c8be2a97d4d5ab36b"
PASSWORD = "correct-horse-battery"
QUERY = "8d1f7a3c55"
SECRETS = (KEY, PASSWORD, QUERY)

QUOTED = f"your key {KEY} at /v2/{KEY} with {PASSWORD} and token={QUERY}"

BEHAVIOURS: dict[str, Behaviour] = {
    "a refusal that quotes the key": faulty.refuse(-32000, QUOTED),
    "a revert that quotes the key": faulty.refuse(3, f"execution reverted: {QUOTED}"),
    "a refusal with the key in its data": faulty.refuse(-32000, "no", {"url": QUOTED}),
    "a value that quotes the key": faulty.answer(KEY),
    "an id that quotes the key": faulty.answer_document(lambda _: {"jsonrpc": "2.0", "id": KEY, "result": "0x1"}),
    "a page that quotes the key": faulty.answer_body(f"<html>{QUOTED}</html>".encode()),
    "a status": faulty.answer_body(QUOTED.encode(), status=403),
    "a redirect": faulty.answer_body(b"", status=302, headers={"location": f"https://x/v2/{KEY}"}),
    "no HTTP": faulty.answer_raw(f"{KEY}\r\n\r\n".encode()),
    "a closed connection": faulty.close_at_once,
    "silence": faulty.hang,
}


@pytest.mark.parametrize("name", BEHAVIOURS)
async def test_secrets_stay_secret(server: FaultyServer, name: str, caplog: pytest.LogCaptureFixture) -> None:
    """Goal: RPC-10. Method: an endpoint that quotes every secret of its URL; read all that is said about it."""
    caplog.set_level(logging.DEBUG)
    url = f"http://user:{PASSWORD}@127.0.0.1:{server.port}/v2/{KEY}?token={QUERY}"
    seen: list[Observation] = []
    async with Endpoint.open(url, chain_id=CHAIN_ID, deadline_seconds=0.5, observer=seen.append) as endpoint:
        await endpoint.ask(methods.block_number())
        server.behave(BEHAVIOURS[name])
        with pytest.raises(RpcError) as caught:
            await endpoint.ask(methods.block_number())
        said = [str(caught.value), repr(caught.value), repr(endpoint), endpoint.shown, repr(seen), caplog.text]
        said += traceback.format_exception(caught.value)
        said += [repr(value) for value in vars(endpoint).values()]
    request = server.requests[-1]
    assert request.target == f"/v2/{KEY}?token={QUERY}"
    assert request.headers["authorization"].startswith("Basic ")
    assert endpoint.shown == f"http://127.0.0.1:{server.port}/…"
    for text in said:
        assert not any(secret in text for secret in SECRETS), text
