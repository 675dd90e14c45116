"""Asking all members where their answers differ by nature and are not compared: heads and pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import trio
from attrs import frozen

from nursery.groups import unwrapped
from rpc.errors import RpcError
from rpc.member import Member
from rpc.reads import Call

T = TypeVar("T")


@frozen
class Told(Generic[T]):
    """What one member told, in the order asked, and after how long."""

    voter: str
    answers: Sequence[T | RpcError]
    seconds: float


async def canvass(
    members: Sequence[Member],
    calls: Sequence[Call[T]],
    *,
    needed: int,
    deadline_seconds: float,
    grace_seconds: float,
) -> list[Told[T]]:
    """What the members told, in the order it came. Once `needed` gave an answer, the others have the grace left.

    The grace is there because the fastest may be the ones that lag; the bound, because one that hangs must not hold
    the others up.
    """
    told: list[Told[T]] = []

    async def ask(member: Member, waiting: trio.CancelScope) -> None:
        started = trio.current_time()
        answers = await member.ask_many(calls)
        told.append(Told(member.shown, answers, trio.current_time() - started))
        useful = sum(not all(isinstance(answer, RpcError) for answer in one.answers) for one in told)
        if useful >= needed:
            waiting.deadline = min(waiting.deadline, trio.current_time() + grace_seconds)

    with unwrapped(), trio.move_on_after(deadline_seconds) as waiting:
        async with trio.open_nursery() as asked:
            for member in members if calls else ():
                asked.start_soon(ask, member, waiting)
    return told
