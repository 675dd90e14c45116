"""A counter on a real node, and unsigned ways to reach it: anvil signs for the accounts it made itself."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

from attrs import frozen

from rpc import methods
from rpc.endpoint import Endpoint
from rpc.quantities import as_data, hash32
from rpc.reads import Call
from rpc.values import Log, Receipt
from tayho.kernel.address import Address
from tayho.local.anvil import Chain, anvil
from tayho.protocol import abi
from tayho.protocol.artifacts import load
from tests.waiting import until

COUNTER = load("Counter")
CHAIN = Chain()


@frozen
class Deployed:
    """A fresh node with one counter on it."""

    endpoint: Endpoint
    contract: Address
    accounts: tuple[Address, ...]

    async def record(self, event_id: bytes, *, account: int = 0) -> Receipt:
        data = abi.encode_call(COUNTER, "record", [event_id])
        return await send(self.endpoint, self.accounts[account], self.contract, data)

    async def view(self, function: str, *arguments: object) -> object:
        request = self.request(function, *arguments)
        (value,) = abi.decode_result(COUNTER, function, await self.endpoint.ask(methods.call(request, "latest")))
        return value

    async def logs(self) -> tuple[Log, ...]:
        head = await self.endpoint.ask(methods.block_number())
        wanted = methods.logs(
            (0, head), addresses=[self.contract.value], topics=[[abi.event_topic(COUNTER, "Recorded")]]
        )
        return await self.endpoint.ask(wanted)

    def request(self, function: str, *arguments: object) -> methods.CallRequest:
        data = abi.encode_call(COUNTER, function, arguments)
        return methods.CallRequest(self.accounts[0].value, self.contract.value, data)


@asynccontextmanager
async def counter_on_anvil(folder: Path) -> AsyncGenerator[Deployed]:
    """Start a node and deploy a counter."""
    async with (
        anvil(folder, CHAIN) as node,
        Endpoint.open(node.service.url, chain_id=CHAIN.chain_id) as endpoint,
    ):
        accounts = await endpoint.ask(Call("eth_accounts", (), _addresses))
        receipt = await send(endpoint, accounts[0], None, abi.encode_deployment(COUNTER))
        assert receipt.contract_address is not None
        yield Deployed(endpoint, Address(receipt.contract_address), accounts)


async def send(endpoint: Endpoint, sender: Address, to: Address | None, data: bytes) -> Receipt:
    """Send from one of the node's own accounts, and wait until it is mined."""
    target = {} if to is None else {"to": as_data(to.value)}
    transaction = {"from": as_data(sender.value), "data": as_data(data), **target}
    return await mined(endpoint, await endpoint.ask(Call("eth_sendTransaction", (transaction,), hash32, is_write=True)))


async def mined(endpoint: Endpoint, transaction_hash: bytes) -> Receipt:
    """The receipt, once there is one."""
    found: list[Receipt] = []

    async def is_mined() -> bool:
        receipt = await endpoint.ask(methods.transaction_receipt(transaction_hash))
        found.extend([] if receipt is None else [receipt])
        return bool(found)

    await until(is_mined, what=f"0x{transaction_hash.hex()} to be mined")
    return found[0]


def _addresses(answer: object) -> tuple[Address, ...]:
    return tuple(Address.parse(text) for text in cast("list[str]", answer))
