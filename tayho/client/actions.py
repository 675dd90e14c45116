"""What may be wished of the reference protocol, as intents to sign. Pure but for the salt.

The salt tells two otherwise equal wishes apart. It is drawn at random unless given: give your own row's number, and
a wish that is built twice is one wish.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from tayho.intents.types import Intent
from tayho.kernel.address import Address
from tayho.protocol import codec
from tayho.protocol.intents import Action

__all__ = ["EVERY_MARKET", "Action", "cancel_order", "claim", "permissions_of", "place_order", "withdraw"]

EVERY_MARKET = bytes(32)
"""The market of an intent that concerns none; a session that is bound to one market does not cover it."""


def place_order(
    account: Address, market: bytes, *, size: int, deadline: int, not_before: int = 0, salt: int | None = None
) -> Intent:
    """Place an order: positive `size` buys, negative sells, in units of the market. `deadline` and `not_before` are in
    seconds since 1970: until when the intent may be executed, and from when the order may.

    Raises ValueRefused for a number that the contract cannot hold.
    """
    payload = codec.encode(["int128", "uint64"], [size, not_before])
    return _intent(account, Action.PLACE_ORDER, market, payload, deadline, salt)


def cancel_order(account: Address, market: bytes, *, order_id: int, deadline: int, salt: int | None = None) -> Intent:
    """Cancel an open order of the account. Raises ValueRefused."""
    return _intent(account, Action.CANCEL_ORDER, market, codec.encode(["uint256"], [order_id]), deadline, salt)


def claim(
    account: Address,
    *,
    recipient: Address,
    amount_wei: int,
    deadline: int,
    market: bytes = EVERY_MARKET,
    salt: int | None = None,
) -> Intent:
    """Claim a withdrawal, which the role payouts then pays out. Raises ValueRefused."""
    payload = codec.encode(["address", "uint256"], [recipient, amount_wei])
    return _intent(account, Action.CLAIM, market, payload, deadline, salt)


def withdraw(
    account: Address,
    *,
    recipient: Address,
    amount_wei: int,
    deadline: int,
    market: bytes = EVERY_MARKET,
    salt: int | None = None,
) -> Intent:
    """Withdraw at once: the recipient is paid as the intent is executed. Raises ValueRefused."""
    payload = codec.encode(["address", "uint256"], [recipient, amount_wei])
    return _intent(account, Action.WITHDRAW, market, payload, deadline, salt)


def permissions_of(actions: Sequence[Action]) -> int:
    """The permissions of a session that allows these: bit n allows action n."""
    return sum(1 << action for action in set(actions))


def _intent(account: Address, action: Action, market: bytes, payload: bytes, deadline: int, salt: int | None) -> Intent:
    return Intent(account, action, market, payload, secrets.randbits(256) if salt is None else salt, deadline)
