"""Transactions and lanes as a person reads them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import click
from rich.console import Console
from rich.table import Table

from tayho.transactions.module import (
    DoubtfulLine,
    LaneLine,
    LineageWhole,
    MemberSeen,
    NodeSight,
    TxExplanation,
)
from tayho.transactions.types import MemberRecord

_WEI_PER_ETHER = 10**18
_WEI_PER_GWEI = 10**9


def print_explanation(found: TxExplanation) -> None:
    """The cause, what to do, every transaction signed, and every node's answer."""
    whole, lane = found.facts.whole, found.facts.lane
    click.echo(f"{found.state}: {found.summary}")
    for cause in found.causes[1:]:
        click.echo(f"  also: {cause.sentence}")
    click.echo(f"  do: {found.next_action}")
    if found.next_at is not None:
        click.echo(f"  next: {moment(found.next_at)}Z")
    click.echo(
        f"  lane: {whole.signer} is {lane.state}, next nonce {lane.next_nonce}, latest {_or_dash(lane.latest_nonce)}, "
        f"pending {_or_dash(lane.pending_nonce)}, balance {ether(lane.balance_wei)}"
    )
    for halt in found.facts.halts:
        click.echo(f"  halt: {halt.kind} since {moment(halt.raised_at)}Z, found by {halt.raised_by}")
    console = Console()
    if whole.members:
        console.print(_members(whole.members))
    if found.facts.nodes:
        console.print(_nodes(found.facts.nodes))


def print_whole(whole: LineageWhole) -> None:
    """Everything, in the order in which it happened."""
    job = "" if whole.job_id is None else f" of job {whole.job_id}"
    click.echo(f"lineage {whole.lineage_id}{job}: {whole.purpose}, {whole.state}")
    for name, told in _told(whole):
        click.echo(f"  {name}: {told}")
    console = Console()
    if whole.members:
        console.print(_members(whole.members))
    if whole.broadcasts:
        table = Table("sent at", "transaction", "endpoint", "answer", "detail", "by", title="Broadcasts, newest first")
        for one in whole.broadcasts:
            table.add_row(
                moment(one.answered_at),
                short(one.tx_hash),
                one.endpoint,
                one.reason or one.answer,
                one.detail,
                one.sent_by,
            )
        console.print(table)
    if whole.receipts:
        table = Table("seen at", "transaction", "block", "block hash", "outcome", "gas", "orphaned", title="Receipts")
        for receipt in whole.receipts:
            table.add_row(
                moment(receipt.observed_at),
                short(receipt.tx_hash),
                str(receipt.block_number),
                short(receipt.block_hash),
                "succeeded" if receipt.succeeded else "reverted",
                f"{receipt.gas_used} at {gwei(receipt.effective_gas_price_wei)}",
                "" if receipt.orphaned_at is None else moment(receipt.orphaned_at),
            )
        console.print(table)
    for title, lines in (
        ("Events", [(one.occurred_at, one.kind, one.detail) for one in whole.events]),
        ("Findings about the lane", [(one.found_at, one.kind, one.detail) for one in whole.findings]),
    ):
        if lines:
            table = Table("at", "what", "detail", title=title)
            for at, kind, detail in lines:
                table.add_row(moment(at), kind, str(detail))
            console.print(table)


def print_doubtful(lines: Sequence[DoubtfulLine]) -> None:
    """What is in doubt or held, a line each."""
    table = Table("lineage", "job", "signer", "nonce", "state", "hold", "transaction", "last answer", "at")
    for line in lines:
        table.add_row(
            str(line.lineage_id),
            "filler" if line.job_id is None else str(line.job_id),
            str(line.signer),
            str(line.nonce),
            line.member_state or line.state,
            "" if line.hold is None else f"{line.hold}: {line.hold_reason}",
            "" if line.tx_hash is None else short(line.tx_hash),
            line.last_answer,
            "" if line.last_answered_at is None else moment(line.last_answered_at),
        )
    Console().print(table)


def print_lanes(lines: Sequence[LaneLine]) -> None:
    """The lanes, a line each."""
    table = Table(
        "role", "signer", "state", "next", "latest", "pending", "flying", "held", "oldest", "balance", "world"
    )
    for line in lines:
        table.add_row(
            line.role,
            f"{line.signer}{' (delegated)' if line.is_delegated else ''}",
            line.state if line.state_reason is None else f"{line.state}: {line.state_reason}",
            str(line.next_nonce),
            _or_dash(line.latest_nonce),
            _or_dash(line.pending_nonce),
            str(line.in_flight),
            str(line.held),
            "-" if line.oldest_open_seconds is None else f"{line.oldest_open_seconds:.0f} s",
            ether(line.balance_wei),
            str(line.world),
        )
    Console().print(table)


def _told(whole: LineageWhole) -> list[tuple[str, str]]:
    told = [
        ("nonce", f"{whole.nonce} of {whole.signer} on chain {whole.chain_id}, world {whole.world} ({whole.role})"),
        ("call", f"{whole.to_address}, {whole.value_wei} wei, {whole.call_data_bytes} bytes of data"),
        ("allocated", f"{moment(whole.allocated_at)}Z"),
    ]
    if whole.state_reason is not None:
        told.append(("reason", whole.state_reason))
    if whole.hold is not None and whole.held_at is not None:
        told.append(("hold", f"{whole.hold} since {moment(whole.held_at)}Z: {whole.hold_reason}"))
    for name, at in (("bump wanted", whole.bump_requested_at), ("cancel wanted", whole.cancel_requested_at)):
        if at is not None:
            told.append((name, f"{moment(at)}Z"))
    if whole.included_block_number is not None:
        told.append(("seen in block", str(whole.included_block_number)))
    if whole.ended_at is not None:
        told.append(("ended", f"{moment(whole.ended_at)}Z"))
    return told


def _members(members: Sequence[MemberRecord]) -> Table:
    table = Table("#", "transaction", "state", "type", "gas", "max fee", "tip", "key", "signed at", "sends", "block")
    for one in members:
        table.add_row(
            f"{one.member_number}{' (cancels)' if one.is_cancellation else ''}",
            f"0x{one.tx_hash.hex()}",
            one.state,
            str(one.transaction_type),
            str(one.gas_limit),
            gwei(one.max_fee_per_gas_wei),
            gwei(one.max_priority_fee_per_gas_wei),
            one.key_id,
            moment(one.signed_at),
            str(one.broadcasts),
            "" if one.block_number is None else str(one.block_number),
        )
    return table


def _nodes(nodes: Sequence[NodeSight]) -> Table:
    table = Table("endpoint", "head", "base fee", "latest", "pending", "transactions")
    for node in nodes:
        table.add_row(
            node.endpoint,
            _or_dash(node.head_block_number),
            "-" if node.base_fee_per_gas_wei is None else gwei(node.base_fee_per_gas_wei),
            _or_dash(node.latest_nonce),
            _or_dash(node.pending_nonce),
            node.problem or "\n".join(f"{short(one.tx_hash)} {_seen(one)}" for one in node.members),
        )
    return table


def _seen(one: MemberSeen) -> str:
    if one.problem is not None:
        return one.problem
    if one.block_number is not None:
        return f"in block {one.block_number}, {'succeeded' if one.succeeded else 'reverted'}"
    return "pending" if one.is_known else "unknown"


def moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}"


def short(content: bytes) -> str:
    """The first bytes of a hash: enough to find it again in the same table."""
    return f"0x{content[:4].hex()}…"


def gwei(wei: int) -> str:
    """In gwei, exact: nine digits after the point, the idle zeros left out."""
    whole, part = divmod(wei, _WEI_PER_GWEI)
    return f"{whole}.{part:09}".rstrip("0").rstrip(".") + " gwei"


def ether(wei: int | None) -> str:
    """In the chain's own coin, exact."""
    if wei is None:
        return "-"
    whole, part = divmod(wei, _WEI_PER_ETHER)
    return f"{whole}.{part:018}".rstrip("0").rstrip(".")


def _or_dash(number: int | None) -> str:
    return "-" if number is None else str(number)
