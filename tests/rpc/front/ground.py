"""Two real chains under the fronts: one that is true, and one that forks from it and tells a consistent other story.

Both hold the same signed transaction. On the true chain it succeeds and leaves an event; on the forked one it reverts,
in a block of another hash, and the sender has sent once more since.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import trio
from attrs import frozen

from rpc import methods
from rpc.endpoint import Endpoint
from rpc.quantities import Unreadable, as_data, as_quantity, hash32
from rpc.reads import Call
from tayho.local.anvil import Chain, prepare
from tayho.local.development import PUBLIC_ACCOUNTS
from tests.services.launch import launched

CHAIN_ID = 31337
ACCOUNT = bytes.fromhex(PUBLIC_ACCOUNTS[0][0][2:])
# LOG2 with topics 1 and 2 and one word of 5, and returns it, whatever it is called with; the other only reverts.
SPEAKS = bytes.fromhex("60055f526002600160205fa260205ff3")
REVERTS = bytes.fromhex("5f5ffd")
CONTRACT = b"\x42" * 20

_TRANSACTION_BLOCK = 4
_BLOCKS = 40


@frozen
class Ground:
    """Where both chains are, and what is asked about: a mined transaction, and heights above and below it."""

    true_url: str
    forked_url: str
    transaction: bytes
    transaction_block: int
    # A height well above the transaction and well below the head: what is asked there never changes.
    height: int
    head: int


@contextmanager
def ground() -> Iterator[Ground]:
    """Run both nodes."""
    chain = partial(prepare, chain=Chain(chain_id=CHAIN_ID))
    with launched(chain) as true, launched(chain) as forked:
        transaction = trio.run(_tell, true.url, SPEAKS, 1)
        assert trio.run(_tell, forked.url, REVERTS, 2) == transaction
        yield Ground(true.url, forked.url, transaction, _TRANSACTION_BLOCK, _BLOCKS // 2, _BLOCKS)


async def _tell(url: str, code: bytes, transactions: int) -> bytes:
    """Make the chain: the contract, the transaction at its block, then blocks up to the head."""
    async with Endpoint.open(url, chain_id=CHAIN_ID) as node:
        await node.ask(Call("anvil_setCode", (as_data(CONTRACT), as_data(code)), _nothing))
        await _mine(node, _TRANSACTION_BLOCK - 1)
        hashes = [await _send(node, nonce) for nonce in range(transactions)]
        await _mine(node, _BLOCKS - _TRANSACTION_BLOCK + 1 - transactions)
        assert await node.ask(methods.block_number()) == _BLOCKS
    return hashes[0]


async def _send(node: Endpoint, nonce: int) -> bytes:
    transaction = {
        "from": as_data(ACCOUNT),
        "to": as_data(CONTRACT),
        "nonce": as_quantity(nonce),
        "gas": as_quantity(100_000),
        "maxFeePerGas": as_quantity(10**10),
        "maxPriorityFeePerGas": as_quantity(1),
    }
    return await node.ask(Call("eth_sendTransaction", (transaction,), hash32, is_write=True))


async def _mine(node: Endpoint, blocks: int) -> None:
    await node.ask(Call("anvil_mine", (as_quantity(blocks),), _nothing))


def _nothing(answer: object) -> None:
    if answer is not None:
        raise Unreadable("expected null")
