"""What every side has: a chain of its own with one-second blocks, accounts with funds, the reference counter."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from attrs import field, frozen

from rpc import methods
from rpc.endpoint import Endpoint
from rpc.reads import Call
from tayho.kernel.address import Address
from tayho.local.anvil import Chain, anvil
from tayho.local.development import deploy
from tayho.protocol import abi, artifacts
from tests.custody.oracle import Account
from tests.waiting import until

CHAIN_ID = 31337
BLOCK_SECONDS = 1
# Anvil's own blocks hold some six hundred records: here the clients are to be the limit, not the block.
BLOCK_GAS = 1_000_000_000
FUNDS_WEI = 10**24
MINED_SECONDS_MAX = 120
_ANY_SENDER = bytes(20)


@frozen
class Signer:
    """An account made for this run."""

    address: Address
    key: str = field(repr=False)


@frozen
class World:
    """One running chain."""

    url: str
    node: Endpoint
    contract: Address
    signers: Sequence[Signer]

    async def records(self) -> int:
        """How many records were mined."""
        data = abi.encode_call(artifacts.load("Counter"), "count")
        answer = await self.node.ask(
            methods.call(methods.CallRequest(_ANY_SENDER, self.contract.value, data), "latest")
        )
        return int.from_bytes(answer, "big")

    async def all_mined(self, count: int) -> None:
        """Wait until so many records are mined. Raises AssertionError."""

        async def is_mined() -> bool:
            return await self.records() >= count

        await until(is_mined, seconds=MINED_SECONDS_MAX, what=f"{count} records")


@asynccontextmanager
async def world(folder: Path, accounts: int) -> AsyncIterator[World]:
    """A fresh chain; gone with the block."""
    async with (
        anvil(folder, Chain(chain_id=CHAIN_ID, block_seconds=BLOCK_SECONDS)) as running,
        Endpoint.open(running.service.url, chain_id=CHAIN_ID, deadline_seconds=30) as node,
    ):
        await _told(node, "evm_setBlockGasLimit", hex(BLOCK_GAS))
        signers = [_new_signer() for _ in range(accounts)]
        for signer in signers:
            await _told(node, "anvil_setBalance", str(signer.address), hex(FUNDS_WEI))
        contract = await deploy(node, artifacts.load("Counter").bytecode)
        yield World(running.service.url, node, contract, signers)


def _new_signer() -> Signer:
    key = f"0x{secrets.token_hex(32)}"
    return Signer(Address.parse(Account.from_key(key).address), key)


async def _told(node: Endpoint, method: str, *params: str) -> None:
    order: Call[Any] = Call(method, params, lambda answer: answer, is_write=True)
    await node.ask(order)
