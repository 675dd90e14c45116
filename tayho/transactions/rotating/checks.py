"""Writing an examination down: that somebody asked for it, before anything is looked at, and what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rpc.values import Header
from storage.database import Database
from tayho.contracts.coordination import Coordination
from tayho.kernel.ids import new_id
from tayho.kernel.json_document import Json
from tayho.kernel.steps import step
from tayho.transactions import store
from tayho.transactions.rotating.types import CheckDone, Missing, Subject


async def record_request(
    database: Database, coordination: Coordination, action: str, actor: str, detail: Mapping[str, Json]
) -> None:
    """Commit who asked, before the examination. Raises StorageError."""
    async with database.transaction() as tx:
        await coordination.record_act(tx, action, actor, detail)
    step("rotation.after_request")


async def record_check(
    database: Database,
    where: tuple[int, str],
    subject: Subject,
    head: Header | None,
    missing: Sequence[Missing],
    detail: Mapping[str, Json],
    actor: str,
) -> CheckDone:
    """Commit what was found at the agreed head, `where` being chain and environment. Raises StorageError."""
    told: dict[str, Json] = {
        **detail,
        "missing": [{"code": one.code, "sentence": one.sentence} for one in missing],
    }
    async with database.connection() as connection:
        row = await store.RECORD_CHECK(
            connection,
            new_id(),
            *where,
            None if subject.signer is None else subject.signer.value,
            subject.key_id,
            subject.nonce_fence,
            not missing,
            None if head is None else head.number,
            None if head is None else head.hash,
            told,
            actor,
        )
    step("rotation.after_check")
    if row is None:
        raise LookupError("an insert returned no row")
    return CheckDone(row["check_id"], row["checked_at"], tuple(missing), None if head is None else head.number, told)
