"""The chain under a schedule: an anvil of its own that mines when told, and everything that can be done to it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import trio
from attrs import define, field, frozen

from rpc import methods
from rpc.endpoint import Endpoint
from rpc.errors import RpcRefused
from rpc.reads import Call
from tayho.kernel.address import Address
from tayho.local.anvil import Chain, anvil
from tayho.local.development import DEPLOYER, PUBLIC_ACCOUNTS
from tayho.protocol import artifacts
from tests.custody.oracle import Account
from tests.invariants import Foreign
from tests.simulation.chain.clockwork import BLOCK_SECONDS, CALM_BASE_FEE_WEI, CHAIN_ID, GWEI, LOOKBACK_BLOCKS

SIGNERS = tuple(Address.parse(address) for address, _ in PUBLIC_ACCOUNTS)
_KEYS = dict(zip(SIGNERS, (key for _, key in PUBLIC_ACCOUNTS), strict=True))
RICH_WEI = 10_000 * 10**18
# Enough blocks that a reorganisation of the deepest kind never reaches the contract.
BLOCKS_BEFORE = LOOKBACK_BLOCKS + 4
# Pays whatever the market asks, so that it wins against what is in the pool.
_FOREIGN_FEE_WEI = 5_000 * GWEI


@frozen
class Mined:
    """A transaction of a block, with the bytes that would mine it again."""

    raw: str
    sender: str
    nonce: int
    # Counted from the lowest block that is taken away.
    place: int


@define(eq=False)
class Ground:
    """One chain. What is asked here goes straight to the node, past every front."""

    url: str
    node: Endpoint
    contract: Address
    # Nothing below is ever taken away.
    floor: int
    _foreign: dict[bytes, tuple[bytes, int]] = field(factory=dict[bytes, tuple[bytes, int]])
    _head_max: int = 0
    _mining: trio.Event = field(factory=trio.Event)
    # Blocks are not made while they are taken away.
    _one_at_a_time: trio.Lock = field(factory=trio.Lock)

    @property
    def foreign(self) -> Foreign:
        return Foreign(dict(self._foreign))

    async def tell(self, method: str, *params: object) -> Any:
        return await self.node.ask(Call(method, params, lambda answer: answer, is_write=True))

    async def head(self) -> int:
        return await self.node.ask(methods.block_number())

    # Blocks

    async def mine(self, blocks: int) -> None:
        async with self._one_at_a_time:
            await self.tell("anvil_mine", hex(blocks))

    def resume_mining(self) -> None:
        self._mining.set()

    def hold_mining(self) -> None:
        if self._mining.is_set():
            self._mining = trio.Event()

    async def keep_mining(self) -> None:
        """A block every so often while mining is on, until cancelled."""
        while True:
            await self._mining.wait()
            await self.mine(1)
            await trio.sleep(BLOCK_SECONDS)

    async def reorganise(self, depth: int, how: str) -> None:
        """Replace the top blocks by others, with the same transactions, in another order, some or none."""
        async with self._one_at_a_time:
            depth = await self._depth_allowed(depth)
            if depth > 0:
                again = _mined_again(await self._mined_above(depth), depth, how)
                await self.tell("anvil_reorg", depth, again)

    async def roll_back(self, depth: int) -> None:
        """Take the top blocks away; the chain is shorter until somebody mines."""
        async with self._one_at_a_time:
            depth = await self._depth_allowed(depth)
            if depth > 0:
                await self.tell("anvil_rollback", depth)

    async def _depth_allowed(self, depth: int) -> int:
        """As deep as asked, but above all that was final once, at the highest head that anybody may have seen."""
        head = await self.head()
        self._head_max = max(self._head_max, head)
        return min(depth, head - max(self.floor, self._head_max - LOOKBACK_BLOCKS))

    async def _mined_above(self, depth: int) -> list[Mined]:
        head = await self.head()
        found: list[Mined] = []
        for place, number in enumerate(range(head - depth + 1, head + 1)):
            block = await self.tell("eth_getBlockByNumber", hex(number), True)
            for one in block["transactions"]:
                raw = await self.tell("eth_getRawTransactionByHash", one["hash"])
                found.append(Mined(raw, one["from"], int(one["nonce"], 16), place))
        return found

    async def set_base_fee(self, wei: int) -> None:
        await self.tell("anvil_setNextBlockBaseFeePerGas", hex(wei))

    # The pool

    async def pooled(self) -> list[str]:
        """The hashes in the node's pool, in a stable order."""
        pool = await self.tell("txpool_content")
        found = [
            (one["from"], int(one["nonce"], 16), one["hash"])
            for part in pool.values()
            for by_nonce in part.values()
            for one in by_nonce.values()
        ]
        return [tx_hash for _, _, tx_hash in sorted(found)]

    async def drop(self, number: int) -> None:
        hashes = await self.pooled()
        if hashes:
            await self.tell("anvil_dropTransaction", hashes[number % len(hashes)])

    async def drop_all(self) -> None:
        await self.tell("anvil_dropAllTransactions")

    # Accounts

    async def drain(self, signer: Address, wei: int) -> None:
        await self.tell("anvil_setBalance", str(signer), hex(wei))

    async def refill(self, signer: Address) -> None:
        await self.tell("anvil_setBalance", str(signer), hex(RICH_WEI))

    async def send_foreign(self, signer: Address, *, block: str) -> None:
        """Somebody else uses the key: at the next nonce by the chain (`latest`), or after all in the pool (`pending`).

        With fees that beat whatever of ours has the nonce in the pool.
        """
        nonce = int(await self.tell("eth_getTransactionCount", str(signer), block), 16)
        signed = Account.sign_transaction(
            {
                "type": 2,
                "chainId": CHAIN_ID,
                "nonce": nonce,
                "to": "0x" + "88" * 20,
                "value": 1,
                "gas": 50_000,
                "maxFeePerGas": _FOREIGN_FEE_WEI,
                "maxPriorityFeePerGas": _FOREIGN_FEE_WEI // 2,
            },
            _KEYS[signer],
        )
        # First written down, as ours are: a check may run as soon as the node has it.
        self._foreign[bytes(signed.hash)] = (signer.value, nonce)
        # Without funds, or below the base fee, it is nobody's transaction.
        with suppress(RpcRefused):
            await self.tell("eth_sendRawTransaction", f"0x{signed.raw_transaction.hex()}")

    async def calm(self) -> None:
        """Everything that was done to it and lasts is undone: a cheap market, rich accounts, blocks."""
        for signer in SIGNERS:
            await self.refill(signer)
        await self.set_base_fee(CALM_BASE_FEE_WEI)
        self.resume_mining()


def _mined_again(mined: Sequence[Mined], depth: int, how: str) -> list[tuple[str, int]]:
    """What is mined again, and in which of the new blocks. A sender's own order is kept: the chain demands it."""
    match how:
        case "same":
            kept = list(mined)
            return [(one.raw, one.place) for one in kept]
        case "late":
            return [(one.raw, depth - 1) for one in sorted(mined, key=lambda one: one.nonce)]
        case "turned":
            # The senders in another order, spread evenly over the blocks.
            turned = sorted(mined, key=lambda one: (one.nonce, one.sender[::-1]))
            return [(one.raw, place * depth // len(turned)) for place, one in enumerate(turned)]
        case "some":
            kept = sorted(mined, key=lambda one: one.nonce)[: (len(mined) + 1) // 2]
            return [(one.raw, 0) for one in kept]
        case _:
            return []


@asynccontextmanager
async def ground(folder: Path) -> AsyncGenerator[Ground]:
    """A new chain with the counter on it."""
    async with (
        anvil(folder, Chain(chain_id=CHAIN_ID, mines=False)) as running,
        Endpoint.open(running.service.url, chain_id=CHAIN_ID) as node,
    ):
        one = Ground(running.service.url, node, DEPLOYER, floor=0)
        one.contract = await _deploy(one)
        await one.mine(BLOCKS_BEFORE)
        one.floor = await one.head()
        yield one


async def _deploy(ground: Ground) -> Address:
    code = f"0x{artifacts.load('Counter').bytecode.hex()}"
    tx_hash = await ground.tell("eth_sendTransaction", {"from": str(DEPLOYER), "data": code})
    await ground.mine(1)
    receipt = await ground.tell("eth_getTransactionReceipt", tx_hash)
    return Address.parse(receipt["contractAddress"])
