"""A line of intents on its own database; the chain's word is what the test says."""

from __future__ import annotations

import os
import time

import pytest
import trio
from attrs import define, evolve, field
from coincurve import PrivateKey

from tayho.custody.derivation import address_of
from tayho.custody.recovery import recovered
from tayho.intents.module import Intents
from tayho.intents.signing import digest_of
from tayho.intents.types import Intent, IntentDomain, NotPermitted, SignedIntent
from tayho.kernel.address import Address
from tests.coordination.conftest import CHAIN_ID, ENVIRONMENT, Plane, plane

__all__ = ["plane"]

DOMAIN = IntentDomain(CHAIN_ID, Address(b"\x70" * 20))
HOUR = 3_600


@define
class Line:
    """What a test of intents acts on."""

    plane: Plane
    intents: Intents
    key: PrivateKey = field(factory=lambda: PrivateKey(os.urandom(32)))
    # What the chain says of every intent from now on, and how often it was asked.
    refusal: NotPermitted | None = None
    asked: int = 0
    # How late it is for the intents, beyond the true time.
    late_seconds: float = 0

    async def permit(self, signed: SignedIntent) -> NotPermitted | None:
        self.asked += 1
        return self.refusal

    @property
    def session_key(self) -> Address:
        return address_of(self.key.public_key)


def intent(salt: int = 0, **changes: object) -> Intent:
    whole = Intent(Address(b"\xac" * 20), 0, b"\x4d" * 32, b"payload", salt, int(time.time()) + HOUR)
    return evolve(whole, **changes)


def signed(one: Intent, key: PrivateKey, domain: IntentDomain = DOMAIN) -> SignedIntent:
    signature = key.sign_recoverable(digest_of(one, domain), hasher=None)
    return SignedIntent(one, signature[:64] + bytes([signature[64] + 27]))


@pytest.fixture
async def line(plane: Plane, nursery: trio.Nursery) -> Line:
    told: list[Line] = []

    async def permit(one: SignedIntent) -> NotPermitted | None:
        return await told[0].permit(one)

    intents = Intents(
        plane.database,
        plane.coordination,
        DOMAIN,
        ENVIRONMENT,
        permit,
        recovered,
        lambda: time.time() + told[0].late_seconds,
    )
    await intents.register()
    nursery.start_soon(intents.run)
    told.append(Line(plane, intents))
    return told[0]
