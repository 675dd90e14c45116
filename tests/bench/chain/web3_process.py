"""web3.py, asynchronous, with nonces counted beside it: it has no manager of its own."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Mapping
from itertools import count
from typing import Any

import click
from eth_account import Account
from web3 import AsyncHTTPProvider, AsyncWeb3

from tests.bench.delivery.peer_protocol import end_with_parent

ABI = [
    {
        "type": "function",
        "name": "record",
        "stateMutability": "nonpayable",
        "inputs": [{"name": "jobId", "type": "bytes32"}],
        "outputs": [],
    }
]


async def main() -> None:
    settings = json.loads(sys.stdin.readline())
    web3 = AsyncWeb3(AsyncHTTPProvider(settings["url"]))
    contract = web3.eth.contract(address=settings["contract"], abi=ABI)
    accounts = [(Account.from_key(key), count()) for key in settings["keys"]]
    click.echo("ready")
    await asyncio.to_thread(sys.stdin.readline)
    threading.Thread(target=end_with_parent, daemon=True).start()
    click.echo(json.dumps(await _sent(web3, contract, accounts, settings)))


async def _sent(web3: Any, contract: Any, accounts: Any, settings: Mapping[str, Any]) -> Mapping[str, float]:
    sent, numbers = 0, count()
    began = time.perf_counter()

    async def work(account: Any, nonces: Any) -> None:
        nonlocal sent
        while time.perf_counter() - began < settings["seconds"]:
            record = contract.functions.record(next(numbers).to_bytes(32, "big"))
            transaction = await record.build_transaction({"from": account.address, "nonce": next(nonces)})
            await web3.eth.send_raw_transaction(account.sign_transaction(transaction).raw_transaction)
            sent += 1

    async with asyncio.TaskGroup() as workers:
        for place in range(settings["in_flight"]):
            workers.create_task(work(*accounts[place % len(accounts)]))
    return {"sent": sent, "seconds": time.perf_counter() - began}


if __name__ == "__main__":
    asyncio.run(main())
