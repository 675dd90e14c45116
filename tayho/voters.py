"""Who votes on the chain: the endpoints of RPC_READ_URLS, examined at start, and what they decide (RPC-5, RPC-6)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime

import structlog

from rpc.ballots import majority_of
from rpc.contests import Contests
from rpc.errors import RpcError, WrongChain
from rpc.evidence import ANSWER_CHARACTERS_MAX, Evidence, cut
from rpc.heads import Heads
from rpc.member import Member
from rpc.methods import chain_id
from rpc.proof_errors import Unprovable
from rpc.proofs import verify_header
from rpc.provenance import Refutation, evidence_of_refutation
from rpc.quorum import Quorum
from rpc.receipt_checks import ReceiptChecks
from rpc.segment import Reorganised
from rpc.truth import ChainTruth
from rpc.urls import unnumbered
from rpc.values import Header
from rpc.voters import examine_voters
from tayho.config import Settings
from tayho.custody.module import recovered

log = structlog.get_logger("tayho.voters")

_LIVE = "live"


def truth_of(
    voters: Sequence[Member],
    *,
    on_dissent: Callable[[str], None] = lambda _: None,
    on_lie: Callable[[str], None] = lambda _: None,
) -> ChainTruth:
    """What durable decisions rest on. What is contested or refuted is told at once, and charged to who said it.

    A single voter proves nothing: whoever tells the only header tells a block that fits. It is believed as it is.
    """
    contests = Contests()

    def contested(evidence: Evidence) -> None:
        _tell_contested(evidence)
        contests.note(evidence)
        for one in evidence.testimonies:
            # Who has nothing there yet merely lags.
            if one.dissents and one.answer != "null":
                on_dissent(one.voter)

    def refuted(lie: Refutation) -> None:
        _tell_refuted(lie)
        contests.note(evidence_of_refutation(lie, datetime.now(UTC)))
        on_lie(lie.endpoint)

    quorum = Quorum(voters, contested)
    if len(quorum.voters) == 1:
        return ChainTruth(quorum, Heads(quorum, on_reorganised=_tell_reorganised), contests=contests)
    heads = Heads(quorum, on_reorganised=_tell_reorganised, verify=refuse_forged)
    return ChainTruth(quorum, heads, ReceiptChecks(voters, recovered, refuted), contests)


def refuse_forged(header: Header) -> None:
    """Raise ProofRefuted for a header whose own fields do not make its hash. One that we cannot hash is voted on."""
    with suppress(Unprovable):
        verify_header(header)


async def voter_problems(settings: Settings, urls: Sequence[str], voters: Sequence[Member]) -> list[str]:
    """Why a decision cannot be trusted to them: one host twice, another chain, or no majority within reach.

    A voter that does not answer now is no problem while a majority does: it may come back.
    """
    problems = [
        f"{shown} stands twice in RPC_READ_URLS: one endpoint has one vote"
        for shown, times in Counter(unnumbered(voter.shown) for voter in voters).items()
        if times > 1
    ]
    electorate = await examine_voters(urls)
    warnings = list(electorate.warnings)
    if settings.environment == _LIVE:
        problems += electorate.problems
    else:
        warnings += electorate.problems
    answers = [await error_of(voter) for voter in voters]
    errors = [error for error in answers if error is not None]
    out_of_reach = len(voters) - len(errors) < majority_of(len(voters))
    for error in errors:
        is_refused = out_of_reach or isinstance(error, WrongChain)
        (problems if is_refused else warnings).append(str(error))
    for warning in warnings:
        log.warning("voter_doubtful", detail=warning)
    return problems


async def error_of(endpoint: Member) -> RpcError | None:
    """Why the endpoint cannot be used now; None where it serves our chain."""
    try:
        await endpoint.ask(chain_id())
    except RpcError as error:
        return error
    return None


def _tell_contested(evidence: Evidence) -> None:
    log.warning(
        "chain_contested",
        method=evidence.method,
        subject=evidence.subject,
        outcome=evidence.outcome,
        dissenters=[one.voter for one in evidence.testimonies if one.dissents],
        answers={one.voter: one.error or one.answer for one in evidence.testimonies},
    )


def _tell_refuted(lie: Refutation) -> None:
    log.error(
        "answer_refuted",
        endpoint=lie.endpoint,
        method=lie.method,
        block=f"0x{lie.block_hash.hex()}",
        error=str(lie.error),
        told=cut(json.dumps(lie.told), ANSWER_CHARACTERS_MAX),
    )


def _tell_reorganised(record: Reorganised) -> None:
    log.warning(
        "chain_reorganised",
        height=record.height,
        old_hash=f"0x{record.old_hash.hex()}",
        new_hash=None if record.new_hash is None else f"0x{record.new_hash.hex()}",
    )
