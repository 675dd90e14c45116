"""docs/client.md can be copied: its program runs under asyncio, and its table knows every class."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import trio

import tayho.client
from tayho.client import IntentDomain, IntentProgress
from tayho.client.refusals import REFUSALS
from tayho.intents.signing import digest_of
from tayho.intents.types import Intent
from tayho.kernel.address import Address
from tests.client.intents import ACCOUNT, DOMAIN, ID, MARKET, progress_document
from tests.client.scripted_engine import Request, answer, events, scripted_engine
from tests.custody.oracle import Account
from tests.docs.markdown import blocks, names_in, table_of, text_of

DOCUMENT = "docs/client.md"
SECRET = "0x" + "07" * 32
Buy = Callable[[str, IntentDomain, Address, bytes, object], Awaitable[IntentProgress]]


async def test_the_program_signs_submits_and_waits() -> None:
    """Goal: the page's program works as it stands, with a key of eth-account's. Method: run it on an asyncio loop
    against an engine that takes what it sends and tells of its end."""
    (program,) = blocks(text_of(DOCUMENT), "python")
    page: dict[str, Any] = {}
    exec(compile(program, DOCUMENT, "exec"), page)  # noqa: S102 - our own document
    buy, wallet = cast("Buy", page["buy"]), page["Wallet"](SECRET)
    assert str(wallet.address) == Account.from_key(SECRET).address

    async def take(request: Request) -> None:
        sent = request.document
        intent = Intent(
            Address.parse(sent["account"]),
            sent["action"],
            bytes.fromhex(sent["market"][2:]),
            bytes.fromhex(sent["payload"][2:]),
            int(sent["salt"]),
            int(sent["deadline"]),
        )
        digest = f"0x{digest_of(intent, DOMAIN).hex()}"
        await request.answer(202, {"id": str(ID), "digest": digest, "state": "pending_batch", "created": True})

    end = progress_document("completed", batch={"id": str(ID), "index": 0, "succeeded": True})
    async with scripted_engine() as engine:
        engine.behave(take, events(("1", end)), answer(200, end))
        url = engine.url
        last = await trio.to_thread.run_sync(lambda: asyncio.run(_awaited(buy(url, DOMAIN, ACCOUNT, MARKET, wallet))))
    assert last.has_succeeded


async def _awaited(one: Awaitable[IntentProgress]) -> IntentProgress:
    return await one


def test_every_class_is_told() -> None:
    """Goal: who catches what the page lists catches all. Method: compare with the exceptions that the package shows;
    the codes beside them are theirs."""
    rows = table_of(text_of(DOCUMENT), "class")
    shown = {
        name: value
        for name in tayho.client.__all__
        if isinstance(value := getattr(tayho.client, name), type) and issubclass(value, Exception)
    }
    told = {name for cell, *_ in rows for name in names_in(cell)}
    assert told == shown.keys() - {"EngineError"}
    for names, codes, _ in rows:
        for name, code in zip(names_in(names), names_in(codes), strict=False):
            assert REFUSALS[code] is shown[name]
