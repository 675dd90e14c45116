"""`tayho db qualify` proves a fresh database, and sees every single thing that is broken by hand (OPS-2, OPS-3)."""

from __future__ import annotations

from uuid import uuid4

import pytest

from tayho.identities.making import Credentials, IdentityRefused, make_identities
from tayho.identities.qualifying import qualify
from tests.identities.conftest import PASSWORD, Logins, as_owner, url_of


async def test_everything_holds_of_fresh_logins(logins: Logins) -> None:
    """Goal: what `db migrate` makes is what is said of it. Method: prove them all; make them again, and prove again."""
    for _ in range(2):
        for identity, url in logins.urls.items():
            proofs = await qualify(identity, url)
            assert [(proof.claim, proof.found) for proof in proofs if not proof.holds] == []
            assert len(proofs) > 30
        wanted = {identity: Credentials(name, PASSWORD) for identity, name in logins.names.items()}
        await make_identities(logins.owner_url, wanted)


# What is broken for a login, and a part of the one line that then fails. What undoes it is `make_identities`, or stands
# third where only a person may.
BROKEN = [
    ("ALTER ROLE {login} SUPERUSER", "is not SUPERUSER", None),
    ("ALTER ROLE {login} CREATEDB", "is not CREATEDB", None),
    ("ALTER ROLE {login} CREATEROLE", "is not CREATEROLE", None),
    ("ALTER ROLE {login} REPLICATION", "is not REPLICATION", None),
    ("ALTER ROLE {login} BYPASSRLS", "is not BYPASSRLS", None),
    ("GRANT pg_monitor TO {login}", "is a member of no role", "REVOKE pg_monitor FROM {login}"),
    (
        "ALTER TABLE transactions.events OWNER TO {login}",
        "owns nothing",
        "ALTER TABLE transactions.events OWNER TO CURRENT_USER",
    ),
    ("GRANT CREATE ON SCHEMA public TO {login}", "may make nothing new", None),
    ("GRANT TEMPORARY ON DATABASE {database} TO PUBLIC", "may make nothing new", None),
    ("GRANT UPDATE ON coordination.operator_actions TO {login}", "coordination.operator_actions: ", None),
    ("GRANT TRUNCATE ON transactions.events TO {login}", "transactions.events: ", None),
    ("GRANT DELETE ON transactions.broadcasts TO PUBLIC", "transactions.broadcasts: ", None),
    ("GRANT UPDATE (kind) ON transactions.findings TO {login}", "transactions.findings: ", None),
    ("GRANT INSERT ON tayho.schema_migrations TO {login}", "tayho.schema_migrations: ", None),
    ("REVOKE SELECT ON coordination.jobs FROM {login}", "coordination.jobs: ", None),
    ("GRANT EXECUTE ON FUNCTION transactions.refuse_delete_but_by_policy TO PUBLIC", "may call its routines", None),
    (
        "ALTER TABLE coordination.jobs DISABLE ROW LEVEL SECURITY",
        "coordination.jobs: ",
        None,
    ),
    (
        "CREATE POLICY everybody ON coordination.workers TO PUBLIC USING (true)",
        "has no other policy",
        "DROP POLICY everybody ON coordination.workers",
    ),
    ("CREATE TABLE transactions.later (); GRANT SELECT ON transactions.later TO {login}", "transactions.later: ", None),
]


@pytest.mark.parametrize("identity", ["runtime", "engine", "auditor"])
async def test_each_thing_that_is_broken_is_seen(identity: str, logins: Logins) -> None:
    """Goal: no line of the proof is an ornament. Method: break each attribute and each denial by hand, and see the line
    of it fail; then mend all as it would be mended, and see all hold."""
    login, url = logins.names[identity], logins.urls[identity]
    database = logins.owner_url.rpartition("/")[2].partition("?")[0]
    wanted = {identity: Credentials(login, PASSWORD)}
    for statement, claim, undo in BROKEN:
        await as_owner(logins.owner_url, *statement.format(login=login, database=database).split("; "))
        failed = [proof.claim for proof in await qualify(identity, url) if not proof.holds]
        assert any(one.startswith(claim) for one in failed), (statement, failed)
        if undo is not None:
            await as_owner(logins.owner_url, undo.format(login=login))
        await make_identities(logins.owner_url, wanted)
    assert [proof.claim for proof in await qualify(identity, url) if not proof.holds] == []


async def test_what_only_the_auditor_is_denied(logins: Logins) -> None:
    """Goal: no ciphertext leaves by the auditor's door. Method: grant the column, and see the line fail."""
    await as_owner(logins.owner_url, f"GRANT SELECT (ciphertext) ON transactions.members TO {logins.names['auditor']}")
    failed = [proof.claim for proof in await qualify("auditor", logins.urls["auditor"]) if not proof.holds]
    assert any("transactions.members" in claim for claim in failed)
    assert any("ciphertext" in claim and claim.startswith("is refused") for claim in failed)


async def test_a_login_that_cannot_be_asked_fails(logins: Logins) -> None:
    """Goal: no proof passes because nothing was asked. Method: a wrong password."""
    (proof,) = await qualify("runtime", url_of(logins.owner_url, logins.names["runtime"], "not the password of it"))
    assert not proof.holds


async def test_what_would_have_more_than_its_own_is_refused(logins: Logins) -> None:
    """Goal: nothing is taken over. Method: make an identity of a member, of an owner, of the migrating login itself, of
    one login twice, and of passwords that cannot be used; each is refused by name, and nothing of it is there."""
    new = f"login_{uuid4().hex[:8]}"
    runtime = logins.names["runtime"]

    async def refused(words: str, **wanted: Credentials) -> None:
        with pytest.raises(IdentityRefused, match=words):
            await make_identities(logins.owner_url, wanted)

    await as_owner(logins.owner_url, f"GRANT pg_read_all_data TO {runtime}")
    await refused("member of pg_read_all_data", runtime=Credentials(runtime, PASSWORD))
    await as_owner(
        logins.owner_url, f"REVOKE pg_read_all_data FROM {runtime}", f"CREATE SCHEMA s AUTHORIZATION {runtime}"
    )
    await refused("owns schema s", runtime=Credentials(runtime, PASSWORD))
    await as_owner(logins.owner_url, "DROP SCHEMA s")
    await refused("login of its own", runtime=Credentials(new, PASSWORD), auditor=Credentials(new, PASSWORD))
    await refused("fewer than 16", runtime=Credentials(new, "short"))
    await refused("printable ASCII", runtime=Credentials(new, "a pässword that is long"))
    (proof,) = await qualify("runtime", url_of(logins.owner_url, new))
    assert not proof.holds
