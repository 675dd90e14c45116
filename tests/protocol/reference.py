"""The reference protocol on a real node, and intents signed for it."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from attrs import define, field, frozen
from coincurve import PrivateKey

from rpc import methods
from rpc.endpoint import Endpoint
from rpc.quantities import as_data, as_quantity, hash32
from rpc.reads import Call
from rpc.values import Log, Receipt
from tayho.custody.derivation import address_of
from tayho.intents.signing import digest_of
from tayho.intents.types import Intent, IntentDomain
from tayho.kernel.address import Address
from tayho.local.anvil import Chain, anvil
from tayho.protocol import abi
from tayho.protocol.artifacts import load
from tayho.protocol.intents import Action, arguments_of
from tests.protocol.chain import mined, send

PROTOCOL = load("Protocol")
EXECUTOR = load("BatchExecutor")
CHAIN = Chain()
MARKET = b"\x4d" * 32
ETHER = 10**18
ALL_ACTIONS = (1 << len(Action)) - 1
STIPEND = 300_000


@frozen
class Key:
    """A session key."""

    private: PrivateKey = field(factory=lambda: PrivateKey(os.urandom(32)), repr=False)

    @property
    def address(self) -> Address:
        return address_of(self.private.public_key)

    def sign(self, digest: bytes) -> bytes:
        signature = self.private.sign_recoverable(digest, hasher=None)  # pyright: ignore[reportUnknownMemberType]
        return signature[:64] + bytes([signature[64] + 27])


@frozen
class Child:
    """One intent of a batch, with its stipend."""

    intent: Intent
    signature: bytes
    stipend: int = STIPEND

    def arguments(self) -> tuple[object, ...]:
        return (arguments_of(self.intent), self.signature, self.stipend)


@frozen
class Result:
    """What the executor logged of one child."""

    index: int
    digest: bytes
    success: bool
    return_data_digest: bytes


@define
class Reference:
    """A node with protocol and executor, and an account that lets one key do everything."""

    endpoint: Endpoint
    protocol: Address
    executor: Address
    accounts: tuple[Address, ...]
    key: Key
    salt: int = 0
    # Which of the node's accounts owns the protocol, and which one's session the key is.
    owner: int = 0
    holder: int = 1

    @property
    def account(self) -> Address:
        return self.accounts[self.holder]

    @property
    def domain(self) -> IntentDomain:
        return IntentDomain(CHAIN.chain_id, self.protocol)

    def intent(
        self, action: Action, types: str, *values: object, account: Address | None = None, deadline: int | None = None
    ) -> Intent:
        """An intent that no other equals."""
        self.salt += 1
        payload = abi.codec.encode(types.split(","), values)
        until = int(time.time()) + 3_600 if deadline is None else deadline
        return Intent(account or self.account, action, MARKET, payload, self.salt, until)

    def order(self, size: int = 1, *, deadline: int | None = None) -> Intent:
        return self.intent(Action.PLACE_ORDER, "int128,uint64", size, 0, deadline=deadline)

    def withdrawal(self, recipient: Address, amount_wei: int = 10_000) -> Intent:
        return self.intent(Action.WITHDRAW, "address,uint256", recipient, amount_wei)

    def signed(self, intent: Intent, *, stipend: int = STIPEND, key: Key | None = None) -> Child:
        return Child(intent, (key or self.key).sign(digest_of(intent, self.domain)), stipend)

    async def do(self, function: str, *arguments: object, account: int | None = None) -> Receipt:
        """Send a call of the protocol from one of the node's accounts, its owner's if none is named."""
        data = abi.encode_call(PROTOCOL, function, arguments)
        sender = self.accounts[self.owner if account is None else account]
        return await send(self.endpoint, sender, self.protocol, data)

    async def view(self, function: str, *arguments: object) -> object:
        """What a function of the protocol returns. Raises Reverted."""
        data = abi.encode_call(PROTOCOL, function, arguments)
        request = methods.CallRequest(self.accounts[0].value, self.protocol.value, data)
        values = abi.decode_result(PROTOCOL, function, await self.endpoint.ask(methods.call(request, "latest")))
        return values[0] if len(values) == 1 else values

    async def execute(self, children: Sequence[Child], *, gas: int = 10_000_000) -> tuple[Receipt, list[Result]]:
        """One batch with so much gas, and what it logged of its children."""
        arguments = (os.urandom(32), tuple(child.arguments() for child in children))
        transaction = {
            "from": as_data(self.accounts[0].value),
            "to": as_data(self.executor.value),
            "data": as_data(abi.encode_call(EXECUTOR, "executeBatch", arguments)),
            "gas": as_quantity(gas),
        }
        asked = Call("eth_sendTransaction", (transaction,), hash32, is_write=True)
        receipt = await mined(self.endpoint, await self.endpoint.ask(asked))
        return receipt, [_result(log) for log in receipt.logs if log.topics[0] == _CHILD_EXECUTED]

    async def set_code(self, code: bytes) -> Address:
        """An account with this code."""
        address = Address(os.urandom(20))
        parameters = (as_data(address.value), as_data(code))
        await self.endpoint.ask(Call("anvil_setCode", parameters, lambda _: None, is_write=True))
        return address


_CHILD_EXECUTED = abi.event_topic(EXECUTOR, "ChildExecuted")


def _result(log: Log) -> Result:
    found = abi.decode_event(EXECUTOR, "ChildExecuted", log.topics, log.data)
    index, digest, success, returned = (found[name] for name in ("index", "digest", "success", "returnDataDigest"))
    assert isinstance(index, int)
    assert isinstance(digest, bytes)
    assert isinstance(success, bool)
    assert isinstance(returned, bytes)
    return Result(index, digest, success, returned)


@asynccontextmanager
async def reference_on_anvil(folder: Path) -> AsyncGenerator[Reference]:
    """Start a node and deploy."""
    async with (
        anvil(folder, CHAIN) as node,
        Endpoint.open(node.service.url, chain_id=CHAIN.chain_id) as endpoint,
    ):
        yield await reference_at(endpoint)


async def reference_at(endpoint: Endpoint, *, owner: int = 0, holder: int = 1) -> Reference:
    """Deploy, deposit an ether for the holder's account and open its session."""
    accounts = await endpoint.ask(Call("eth_accounts", (), lambda found: tuple(map(Address.parse, found))))  # pyright: ignore[reportArgumentType,reportUnknownLambdaType]
    protocol = await _deployed(endpoint, accounts[owner], abi.encode_deployment(PROTOCOL))
    executor = await _deployed(endpoint, accounts[owner], abi.encode_deployment(EXECUTOR, [protocol]))
    reference = Reference(endpoint, protocol, executor, accounts, Key(), owner=owner, holder=holder)
    forever = 2**63
    await reference.do("grantSession", reference.key.address, ALL_ACTIONS, bytes(32), forever, account=holder)
    deposit = {
        "from": as_data(accounts[holder].value),
        "to": as_data(protocol.value),
        "value": as_quantity(ETHER),
        "data": as_data(abi.encode_call(PROTOCOL, "deposit")),
    }
    await endpoint.ask(Call("eth_sendTransaction", (deposit,), lambda _: None, is_write=True))
    return reference


async def _deployed(endpoint: Endpoint, sender: Address, data: bytes) -> Address:
    receipt = await send(endpoint, sender, None, data)
    assert receipt.contract_address is not None
    return Address(receipt.contract_address)
