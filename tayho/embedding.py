"""Enqueueing from a program of your own: what `import tayho` gives (DLV-1, DLV-2).

The program brings an asyncpg connection with its transaction open, under plain asyncio; it loads no Trio, no Redis and
no node client for it. Inside tayho our own Connection does as well. See docs/producers.md.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from tayho.coordination.types import PRIORITY_DEFAULT, Enqueued, NewJob, Transaction
from tayho.kernel.arguments import ArgumentRefused
from tayho.kernel.json_document import Json

if TYPE_CHECKING:
    from tayho.config.variable import Variable

T = TypeVar("T")

# What is slow to import is taken where it is needed: `import tayho` is cheap.


class UnknownKind(ValueError):
    """No installed package registers the kind, so that its role is not known. Nothing was recorded."""

    def __init__(self, kind: str, known: Sequence[str]) -> None:
        super().__init__(
            f"the kind {kind!a} is not registered here (registered: {', '.join(known) or 'none'}): install the "
            "package that registers it, or give its role"
        )
        self.kind = kind
        self.known = tuple(known)


class NoTransaction(ValueError):
    """The connection has no open transaction to record the job in. Nothing was recorded."""

    def __init__(self) -> None:
        super().__init__(
            "the connection is in no transaction, so that the job could not commit together with your own rows: call "
            "inside `async with connection.transaction():`"
        )


async def enqueue(
    tx: Transaction,
    kind: str,
    key: str,
    request: Mapping[str, Json],
    *,
    role: str | None = None,
    chain_id: int | None = None,
    environment: str | None = None,
    priority: int = PRIORITY_DEFAULT,
    run_at: datetime | None = None,
    limit_key: str | None = None,
    tags: Sequence[str] = (),
    wake: bool = True,
) -> Enqueued:
    """Record one job, and the promise of its delivery, in your open transaction `tx`: both commit with it, or neither.

    `key` names the effect for ever: the same key with an equal kind and request answers with the job that is there.
    `role` is that of the registered kind unless it is given, and is then believed; to look it up the first time loads
    every installed kind. `chain_id` and `environment` are those of the variables CHAIN_ID and ENVIRONMENT unless given.
    `wake` tells publishers at your commit; PostgreSQL makes commits that tell anything wait for one another, so who
    commits thousands a second gives False, and a publisher finds the job at its next poll.

    Raises, with nothing recorded and `tx` still usable: IdempotencyConflict, DocumentRefused, ArgumentRefused,
    UnknownKind, NoTransaction. PostgreSQL's own errors come as your driver raises them.
    """
    found_role = role_of(kind) if role is None else role
    job = NewJob(kind, found_role, key, request, priority, run_at, limit_key, tags)  # pyright: ignore[reportArgumentType] - NewJob looks at it
    (answer,) = await enqueue_many(tx, [job], chain_id=chain_id, environment=environment, wake=wake)
    return answer


async def enqueue_many(
    tx: Transaction,
    jobs: Sequence[NewJob],
    *,
    chain_id: int | None = None,
    environment: str | None = None,
    wake: bool = True,
) -> list[Enqueued]:
    """Record many jobs, all or none. Otherwise as `enqueue`; `role_of` tells the role of a registered kind."""
    from tayho.coordination.producing import enqueue_in

    place = _chain_id(chain_id), _environment(environment)
    if not tx.is_in_transaction():
        raise NoTransaction
    return await enqueue_in(tx, *place, jobs, wakes=wake) if jobs else []


def role_of(kind: str) -> str:
    """The role that the registered kind of this name belongs to. Raises UnknownKind."""
    roles = _registered_roles()
    if kind not in roles:
        raise UnknownKind(kind, sorted(roles))
    return roles[kind]


@cache
def _registered_roles() -> Mapping[str, str]:
    from tayho.plugins import load_kinds

    return {kind.name: kind.role for kind in load_kinds()}


def _chain_id(given: int | None) -> int:
    from tayho.config.variables import CHAIN_ID

    if given is not None and type(given) is not int:
        raise ArgumentRefused("chain_id", f"is a {type(given).__name__}: give an integer")
    return _read("chain_id", CHAIN_ID, None if given is None else str(given))


def _environment(given: str | None) -> str:
    from tayho.config.variables import ENVIRONMENT

    if given is not None and not isinstance(given, str):  # pyright: ignore[reportUnnecessaryIsInstance] - a producer's
        raise ArgumentRefused("environment", f"is a {type(given).__name__}: give text")
    return _read("environment", ENVIRONMENT, given)


def _read(field: str, variable: Variable[T], given: str | None) -> T:
    """The value as the daemon reads the variable. No default: a job under a guessed chain would never run."""
    from tayho.config.kinds import Unusable

    text = os.environ.get(variable.name) if given is None else given
    if text is None:
        raise ArgumentRefused(field, f"was not given, and {variable.name} is not set: give what the workers run with")
    try:
        return variable.kind.read(text)
    except Unusable as error:
        source = field if given is not None else f"{field} ({variable.name})"
        raise ArgumentRefused(source, f"is {error.found}: expected {variable.kind.expected}") from error
