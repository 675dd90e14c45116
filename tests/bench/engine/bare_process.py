"""A bare route as a measured process: the same framework and server, and nothing behind them."""

from __future__ import annotations

import json
import sys
from typing import Any

import click
import trio
from litestar import Litestar, Request, get, post
from litestar.params import FromPath

from tayho.api.serving import listening, serve_http
from tayho.config import Bind


@post("/v1/intents", status_code=202)
async def take(request: Request[Any, Any, Any]) -> dict[str, object]:
    body = await request.json()
    return {"id": body["salt"], "created": True}


@get("/v1/intents/{intent_id:str}")
async def tell(intent_id: FromPath[str]) -> dict[str, object]:
    await trio.lowlevel.checkpoint()
    return {"id": intent_id, "state": "pending_batch"}


async def main() -> None:
    await trio.to_thread.run_sync(sys.stdin.readline)
    app = Litestar([take, tell], openapi_config=None, logging_config=None)
    async with listening(Bind("127.0.0.1", 0)) as sockets, trio.open_nursery() as tasks:
        tasks.start_soon(lambda: serve_http(app, sockets, shutdown=trio.sleep_forever))
        click.echo("ready")
        click.echo(json.dumps(str(sockets.bind)))
        # Its end is the order to stop.
        await trio.to_thread.run_sync(sys.stdin.read)
        tasks.cancel_scope.cancel()
    click.echo("{}")


if __name__ == "__main__":
    trio.run(main)
