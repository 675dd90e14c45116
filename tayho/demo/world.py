"""The reference protocol on a development node that signs for its own accounts: contracts, roles, users, sessions."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from itertools import chain
from typing import cast

import trio
from attrs import field, frozen

from rpc import methods
from rpc.quantities import as_data, as_quantity, hash32
from rpc.reads import Call, Reads
from tayho.client.actions import Action, permissions_of
from tayho.client.signing import SessionKey
from tayho.custody.module import fresh_pool, fresh_session_key
from tayho.kernel.address import Address
from tayho.kernel.roles import ROLES
from tayho.local.development import DEPLOYER, DeploymentFailed, deploy
from tayho.protocol import abi, artifacts

ETHER = 10**18
DEPOSIT_WEI = ETHER
USERS = 8
SESSION_SECONDS = 3_600
GAS_MONEY_WEI = 1_000 * ETHER
SIGNERS_PER_ROLE = 2
# The names on chain are the names of the processes; the relayer needs no right, for the intents carry theirs.
GRANTED = ("automation", "funding-oracle", "depth-attester", "resolution-attester", "guardian", "revenue", "payouts")
LOOK_SECONDS = 0.1

_PROTOCOL = artifacts.load("Protocol")
_EXECUTOR = artifacts.load("BatchExecutor")


def market_id(name: str) -> bytes:
    """A market's name as Solidity makes a bytes32 of a literal."""
    return name.encode().ljust(32, b"\0")


@frozen
class User:
    """An account with a deposit, and the key that may sign in its name."""

    account: Address
    key: SessionKey


@frozen
class World:
    """What stands on the chain, and what the processes of each signing role are told of their pool."""

    protocol: Address
    executor: Address
    users: Sequence[User]
    pools: Mapping[str, Mapping[str, str]] = field(repr=False)


@frozen
class _Sending:
    """A transaction that the node signs for one of its accounts."""

    sender: Address
    data: bytes
    value_wei: int = 0


@asynccontextmanager
async def reference_world(node: Reads, market: bytes) -> AsyncGenerator[World]:
    """Deploy, grant, deposit; the users' keys are wiped at the end. Raises RpcError, DeploymentFailed.

    Each user's key may act in one market for an hour.
    """
    protocol = await deploy(node, abi.encode_deployment(_PROTOCOL))
    executor = await deploy(node, abi.encode_deployment(_EXECUTOR, [protocol]))
    accounts = [one for one in await node.ask(Call("eth_accounts", (), _addresses)) if one != DEPLOYER][-USERS:]
    pools = {name: fresh_pool(SIGNERS_PER_ROLE) for name, role in ROLES.items() if role.signs}
    signers = {name: addresses for name, (addresses, _) in pools.items()}
    with ExitStack() as keys:
        users = [User(account, keys.enter_context(fresh_session_key())) for account in accounts]
        for signer in chain.from_iterable(signers.values()):
            await _endow(node, signer)
        sent = [
            await node.ask(_call(protocol, one))
            for one in (*_grants(signers), *(one for user in users for one in _opening(user, market)))
        ]
        for tx_hash in sent:
            await _mined(node, tx_hash)
        yield World(protocol, executor, users, {name: {"SIGNER_KEYS": told} for name, (_, told) in pools.items()})


def _grants(signers: Mapping[str, Sequence[Address]]) -> Iterator[_Sending]:
    """The owner lets each role's signers do its work."""
    for role in GRANTED:
        for signer in signers[role]:
            yield _Sending(DEPLOYER, abi.encode_call(_PROTOCOL, "grantRole", [market_id(role), signer]))


def _opening(user: User, market: bytes) -> Iterator[_Sending]:
    """A deposit and a session."""
    yield _Sending(user.account, abi.encode_call(_PROTOCOL, "deposit"), DEPOSIT_WEI)
    permissions = permissions_of([Action.PLACE_ORDER, Action.CLAIM, Action.WITHDRAW])
    until = int(time.time()) + SESSION_SECONDS
    arguments = [user.key.address, permissions, market, until]
    yield _Sending(user.account, abi.encode_call(_PROTOCOL, "grantSession", arguments))


def _call(protocol: Address, sending: _Sending) -> Call[bytes]:
    transaction = {
        "from": str(sending.sender),
        "to": str(protocol),
        "data": as_data(sending.data),
        "value": as_quantity(sending.value_wei),
    }
    return Call("eth_sendTransaction", (transaction,), hash32, is_write=True)


async def _endow(node: Reads, signer: Address) -> None:
    """Give a signer of a fresh key what its gas costs."""
    asked = ("anvil_setBalance", (str(signer), as_quantity(GAS_MONEY_WEI)))
    await node.ask(Call(*asked, lambda _: None, is_write=True))


async def _mined(node: Reads, tx_hash: bytes) -> None:
    while True:
        receipt = await node.ask(methods.transaction_receipt(tx_hash))
        if receipt is not None:
            break
        await trio.sleep(LOOK_SECONDS)
    if not receipt.succeeded:
        raise DeploymentFailed(f"preparing the protocol in transaction 0x{tx_hash.hex()} failed")


def _addresses(answer: object) -> tuple[Address, ...]:
    return tuple(Address.parse(text) for text in cast("list[str]", answer))
