"""Signing another transaction at a nonce that has one: the same call, or its cancellation (TX-7, TX-10)."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from rpc import methods
from rpc.errors import RpcError
from rpc.reads import Call as Question
from rpc.reads import Reads
from rpc.values import Header
from tayho.contracts.custody import Custody, CustodyError, Reservation, SigningRequest
from tayho.kernel.address import Address
from tayho.kinds import Call
from tayho.transactions.constants import GAS_LIMIT_MAX
from tayho.transactions.errors import EstimateAbsurd
from tayho.transactions.executor import signing_request
from tayho.transactions.fees import gas_limit_for
from tayho.transactions.fillers import filler_call_hash
from tayho.transactions.replacing.types import Candidate, Renewal, Replace
from tayho.transactions.types import SignedMember

log = structlog.get_logger("tayho.replacing")


async def sign_renewals(
    custody: Custody, reads: Reads, wanted: Sequence[tuple[Candidate, Replace]], head: Header
) -> list[Renewal]:
    """Sign and seal each. What cannot be signed now stays as it is, and harms no other."""
    gas_limits = await _gas_limits(reads, wanted, head)
    able = [(one, act, gas) for (one, act), gas in zip(wanted, gas_limits, strict=True) if gas is not None]
    signed = await custody.sign_and_seal_many([_request(*each) for each in able])
    renewals: list[Renewal] = []
    for (one, act, gas_limit), result in zip(able, signed, strict=True):
        if isinstance(result, CustodyError):
            log.error("replacement_unsigned", lineage_id=str(one.lineage.lineage_id), error=str(result))
            continue
        member = SignedMember(
            lineage=one.lineage,
            tx_hash=result.tx_hash,
            raw=result.raw,
            gas_limit=gas_limit,
            fee=act.fee,
            key_id=result.sealed.key_id,
            cipher_nonce=result.sealed.cipher_nonce,
            ciphertext=result.sealed.ciphertext,
            transaction_type=one.active.transaction_type,
            is_cancellation=act.is_cancellation,
        )
        renewals.append(Renewal(one, act.cause, member))
    return renewals


async def _gas_limits(reads: Reads, wanted: Sequence[tuple[Candidate, Replace]], head: Header) -> list[int | None]:
    """The gas limit of what is replaced; a cancellation is another call, whose gas is no constant on every chain."""
    new = [one for one, act in wanted if act.is_cancellation and not one.active.is_cancellation]
    answers = await reads.ask_many([_estimate(one.lineage.signer, head) for one in new]) if new else []
    estimated = {one.active.tx_hash: _gas_limit(answer, head) for one, answer in zip(new, answers, strict=True)}
    return [estimated.get(one.active.tx_hash, one.active.gas_limit) for one, _ in wanted]


def _estimate(signer: Address, head: Header) -> Question[int]:
    return methods.estimate_gas(methods.CallRequest(signer.value, signer.value, b"", 0), head.number)


def _request(candidate: Candidate, act: Replace, gas_limit: int) -> tuple[SigningRequest, Reservation]:
    lineage = candidate.lineage
    call, call_hash = lineage.call, lineage.call_hash
    if act.is_cancellation:
        call, call_hash = Call(lineage.signer, b""), filler_call_hash(lineage.chain_id, lineage.signer)
    return (
        signing_request(
            lineage.chain_id, lineage.signer, lineage.nonce, call, gas_limit, act.fee, candidate.active.transaction_type
        ),
        Reservation(lineage.chain_id, lineage.signer, lineage.nonce, call_hash),
    )


def _gas_limit(answer: int | RpcError, head: Header) -> int | None:
    try:
        if isinstance(answer, RpcError):
            raise answer
        return gas_limit_for(answer, block_gas_limit=head.gas_limit, gas_limit_max=GAS_LIMIT_MAX)
    except (RpcError, EstimateAbsurd) as error:
        log.warning("cancellation_unestimated", error=str(error))
        return None
