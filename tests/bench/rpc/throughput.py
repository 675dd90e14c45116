"""What the pool costs beside the bare HTTP client, and what batches save, on one local node."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from statistics import median

import httpx2
import trio

from rpc import methods
from rpc.errors import RpcError
from rpc.pool import ReadPool
from rpc.reads import Call
from rpc.values import Receipt
from tayho.local.anvil import Chain, anvil
from tests.bench.rpc.scenarios import Figures
from tests.bench.rpc.sizes import Sizes

CHAIN_ID = 31337
IN_FLIGHT = 32
TRANSFERS_PER_BLOCK = 200
CLIENT_SECONDS = 60


class NotMined(Exception):
    """The node did not mine what the benchmark needs receipts of."""


async def measure(sizes: Sizes, folder: Path) -> Figures:
    """Both sides in turn, on one node, in one process; medians over the rounds."""
    limits = httpx2.Limits(max_connections=IN_FLIGHT, max_keepalive_connections=IN_FLIGHT)
    async with (
        anvil(folder, Chain(chain_id=CHAIN_ID)) as node,
        httpx2.AsyncClient(limits=limits, timeout=CLIENT_SECONDS) as client,
        ReadPool.open([node.service.url], chain_id=CHAIN_ID, in_flight_max=IN_FLIGHT) as pool,
    ):
        url = node.service.url

        async def bare() -> object:
            answer = await client.post(url, json=_request("eth_blockNumber", []))
            return int(answer.json()["result"], 16)

        async def pooled() -> object:
            return await pool.ask(methods.block_number())

        rates: dict[str, list[float]] = {"bare": [], "pool": []}
        processor: dict[str, list[float]] = {"bare": [], "pool": []}
        for number in range(sizes.rounds + 1):
            order = [("bare", bare), ("pool", pooled)]
            for name, ask in order if number % 2 else order[::-1]:
                began = time.process_time()
                rate = await _rate(ask, sizes.questions)
                microseconds = 1e6 * (time.process_time() - began) / sizes.questions
                # The first round opens connections.
                rates[name] += [rate] if number else []
                processor[name] += [microseconds] if number else []
        ratios = [ours / theirs for ours, theirs in zip(rates["pool"], rates["bare"], strict=True)]
        figures: dict[tuple[str, ...], float] = {
            ("throughput", "bare_per_second"): median(rates["bare"]),
            ("throughput", "pool_per_second"): median(rates["pool"]),
            ("throughput", "pool_to_bare"): median(ratios),
            # Of this process alone, whatever else the machine did meanwhile.
            ("throughput", "bare_processor_us"): median(processor["bare"]),
            ("throughput", "pool_processor_us"): median(processor["pool"]),
        }
        hashes = await _transfers(client, url, sizes.receipts)
        return figures | await _receipts(pool, hashes, sizes.rounds)


async def _rate(ask: Callable[[], Awaitable[object]], questions: int) -> float:
    left = iter(range(questions))

    async def work() -> None:
        for _ in left:
            await ask()

    began = time.perf_counter()
    async with trio.open_nursery() as workers:
        for _ in range(IN_FLIGHT):
            workers.start_soon(work)
    return questions / (time.perf_counter() - began)


async def _receipts(pool: ReadPool, hashes: Sequence[bytes], rounds: int) -> Figures:
    """The same receipts one after the other, by 32 callers at once, and as the reconciler asks for them."""
    calls = [methods.transaction_receipt(one) for one in hashes]
    single, parallel, batched = list[float](), list[float](), list[float]()
    for _ in range(rounds):
        began = time.perf_counter()
        _require([await pool.ask(call) for call in calls])
        single.append(len(calls) / (time.perf_counter() - began))
        began = time.perf_counter()
        await _at_once(pool, calls)
        parallel.append(len(calls) / (time.perf_counter() - began))
        began = time.perf_counter()
        _require(await pool.ask_many(calls))
        batched.append(len(calls) / (time.perf_counter() - began))
    return {
        ("receipts", "single_per_second"): median(single),
        ("receipts", f"single_per_second_at_{IN_FLIGHT}"): median(parallel),
        ("receipts", "batched_per_second"): median(batched),
        ("receipts", "batched_to_single"): median(b / s for b, s in zip(batched, single, strict=True)),
        ("receipts", f"batched_to_single_at_{IN_FLIGHT}"): median(
            b / p for b, p in zip(batched, parallel, strict=True)
        ),
    }


async def _at_once(pool: ReadPool, calls: Sequence[Call[Receipt | None]]) -> None:
    left = iter(calls)

    async def work() -> None:
        for call in left:
            _require([await pool.ask(call)])

    async with trio.open_nursery() as workers:
        for _ in range(IN_FLIGHT):
            workers.start_soon(work)


def _require(receipts: Sequence[Receipt | RpcError | None]) -> None:
    if not all(isinstance(receipt, Receipt) for receipt in receipts):
        raise NotMined(f"of {len(receipts)} transactions some have no receipt")


async def _transfers(client: httpx2.AsyncClient, url: str, count: int) -> list[bytes]:
    """Mined transfers, many to a block."""
    accounts = await _asked(client, url, "eth_accounts", [])
    await _asked(client, url, "evm_setAutomine", [False])
    hashes: list[bytes] = []
    while len(hashes) < count:
        for _ in range(min(TRANSFERS_PER_BLOCK, count - len(hashes))):
            transfer = {"from": accounts[0], "to": accounts[1], "value": "0x1", "gas": "0x5208"}
            hashes.append(bytes.fromhex((await _asked(client, url, "eth_sendTransaction", [transfer]))[2:]))
        await _asked(client, url, "evm_mine", [])
    return hashes


async def _asked(client: httpx2.AsyncClient, url: str, method: str, params: Sequence[object]) -> object:
    return (await client.post(url, json=_request(method, params))).json()["result"]


def _request(method: str, params: Sequence[object]) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
