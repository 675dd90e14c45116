"""payouts: pays withdrawal claims out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from attrs import frozen
from eth_utils.crypto import keccak

from rpc import methods
from rpc.reads import Reads
from rpc.values import Receipt
from tayho.kernel.address import Address
from tayho.kernel.discovery import Discovered, Work
from tayho.kernel.jobs import Job, NotActionable
from tayho.kernel.json_document import Json
from tayho.kinds import Actionable, Call, Revalidation
from tayho.protocol import abi
from tayho.protocol.roles.kind import ProtocolKind, call_of, document_of, event_of, head_of, request_of, view, views
from tayho.protocol.roles.walk import Walk

# A recipient's own code runs at our cost: a wallet's takes a few thousand gas, and nobody is paid who burns more.
TRANSFER_GAS_MAX = 150_000
_TERMS = ("address", "address", "uint256")


@frozen
class ClaimRequest:
    """A claim by its number and its terms."""

    protocol: Address
    claim: int
    terms: bytes


@frozen
class Claim:
    """A claim as the contract has it; the account of an unknown one is zero."""

    account: Address
    recipient: Address
    amount_wei: int
    is_paid: bool

    @property
    def is_open(self) -> bool:
        return not self.account.is_zero and not self.is_paid

    @property
    def terms(self) -> bytes:
        """The digest of who gets how much."""
        return bytes(keccak(abi.codec.encode(_TERMS, (self.account, self.recipient, self.amount_wei))))


class PayClaim(ProtocolKind):
    """`claims.pay`: one payment of one claim."""

    name: str = "claims.pay"
    role: str = "payouts"

    def __init__(self) -> None:
        super().__init__()
        self._walk = Walk()

    async def discover(self, reads: Reads) -> Discovered:
        """The claims that are not paid. Raises RpcError, ResultRefused."""
        protocol = self.settings.address
        if protocol is None:
            return Discovered()
        now = (await head_of(reads)).timestamp_seconds
        (count,) = await view(reads, protocol, "claimCount")
        numbers = self._walk.page(cast("int", count), now)
        claims = dict(zip(numbers, await _claims(reads, protocol, numbers), strict=True))
        for number, claim in claims.items():
            self._walk.tell(number, now if claim.is_open else None, now)
        work = [
            Work(
                f"{number}/{claim.terms[:8].hex()}",
                document_of(ClaimRequest(protocol, number, claim.terms)),
                # One account's many claims take turns with those of others.
                limit_key=str(claim.account),
            )
            for number, claim in claims.items()
            if claim.is_open
        ]
        return Discovered(tuple(work), is_more=self._walk.is_more)

    async def revalidate(self, job: Job, reads: Reads) -> Revalidation:
        """Wanted while that very claim is unpaid and its recipient takes the money for a bounded price.

        A recipient that cannot be paid now is found again later. Raises as `discover`, RequestRefused.
        """
        request = request_of(job, ClaimRequest)
        (claim,) = await _claims(reads, request.protocol, [request.claim])
        if not claim.is_open:
            return NotActionable(f"claim {request.claim} is paid, or not there")
        if claim.terms != request.terms:
            return NotActionable(f"claim {request.claim} has other terms: the chain took back the one that was found")
        balance_wei = await reads.ask(methods.balance(request.protocol.value, "latest"))
        if balance_wei < claim.amount_wei:
            return NotActionable(f"the protocol holds {balance_wei} wei, less than claim {request.claim} asks")
        if not any(await reads.ask(methods.call(_trial(request.protocol, claim), "latest"))):
            return NotActionable(f"{claim.recipient} does not take the money for {TRANSFER_GAS_MAX} gas")
        return Actionable()

    async def call(self, job: Job) -> Call:
        """Raises RequestRefused."""
        request = request_of(job, ClaimRequest)
        return await call_of(request.protocol, "payClaim", request.claim)

    def result_of(self, job: Job, receipt: Receipt) -> Json:
        """What was paid. Raises ResultMissing."""
        request = request_of(job, ClaimRequest)
        event = event_of(receipt, request.protocol, "ClaimPaid", claimId=request.claim)
        return {"amount_wei": str(event["amountWei"])}


def _trial(protocol: Address, claim: Claim) -> methods.CallRequest:
    """A question whose answer is whether the recipient takes the money for a bounded price, and never an error.

    A node runs it as a creation by the protocol: code that sends what it was given on with so much gas, and returns 1
    or 0. An estimate would not do: what burns all it gets is told in each node's own words.
    """
    zero = bytes.fromhex("6000")  # PUSH1 0
    gas = TRANSFER_GAS_MAX.to_bytes(4, "big")
    send = b"".join(
        # Sizes and places of what is sent and returned, CALLVALUE, PUSH20 recipient, PUSH4 gas, CALL.
        (zero * 4, b"\x34", b"\x73", claim.recipient.value, b"\x63", gas, b"\xf1")
    )
    # MSTORE at 0; RETURN of thirty-two bytes from 0.
    answer = zero + b"\x52" + bytes.fromhex("6020") + zero + b"\xf3"
    return methods.CallRequest(protocol.value, None, send + answer, value_wei=claim.amount_wei)


async def _claims(reads: Reads, protocol: Address, numbers: Sequence[int]) -> list[Claim]:
    found = await views(reads, protocol, [("claims", (number,)) for number in numbers])
    return [Claim(*cast("tuple[Address, Address, int, bool]", one)) for one in found]
