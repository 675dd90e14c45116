"""Intents on the reference protocol's contracts: what may be signed, and whether the chain would take it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import IntEnum

from rpc import methods
from rpc.errors import Reverted
from rpc.reads import Reads
from tayho.intents.signing import digest_of
from tayho.intents.types import Intent, IntentDomain, NotPermitted, SignedIntent
from tayho.protocol import abi
from tayho.protocol.artifacts import load

PROTOCOL = load("Protocol")
EXECUTOR = load("BatchExecutor")


class Action(IntEnum):
    """What an intent may do; the numbers are the contract's, and each is a bit of a session's permissions."""

    PLACE_ORDER = 0
    CANCEL_ORDER = 1
    CLAIM = 2
    WITHDRAW = 3


def arguments_of(intent: Intent) -> tuple[object, ...]:
    """The struct as the contract's functions take it."""
    return (intent.account, intent.action, intent.market, intent.payload, intent.salt, intent.deadline)


def permit_of(reads: Reads, domain: IntentDomain) -> Callable[[SignedIntent], Awaitable[NotPermitted | None]]:
    """Asks the protocol at the head whether it would execute an intent now. Raises RpcError."""

    async def permit(signed: SignedIntent) -> NotPermitted | None:
        data = abi.encode_call(PROTOCOL, "verify", (arguments_of(signed.intent), signed.signature))
        request = methods.CallRequest(domain.protocol.value, domain.protocol.value, data)
        try:
            answered = await reads.ask(methods.call(request, "latest"))
        except Reverted as error:
            named = abi.decode_error(PROTOCOL, error.data or b"")
            return NotPermitted(named.name if named is not None else error.reason or "reverted without a reason")
        # What has no code reverts never, and another contract signs other digests: neither has permitted anything.
        return None if answered == digest_of(signed.intent, domain) else NotPermitted("NoSuchProtocol")

    return permit
