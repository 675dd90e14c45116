"""`tayho run engine` as it is run: on a real contract, with a database login that cannot read the journal."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import httpx2
import pytest
import trio
from attrs import evolve

from storage.database import Database
from storage.errors import Refused
from tayho.api.engine.codes import CODES
from tayho.demo.fleet import Fleet, Replica, fleet
from tayho.identities.making import Credentials, make_identities
from tayho.intents.types import IntentDomain, NotPermitted, SignedIntent
from tayho.kernel.address import Address
from tayho.protocol.intents import Action, permit_of
from tests.api.engine.replicas import IDENTITY_KEY, body_of, is_problem
from tests.bench.engine.load import request
from tests.docs.markdown import table_of, text_of
from tests.identities.conftest import PASSWORD, as_owner, url_of
from tests.protocol.reference import CHAIN, Child, Key, Reference, reference_on_anvil
from tests.waiting import until

pytestmark = pytest.mark.services

DOCUMENT = "docs/engine.md"


@pytest.fixture
async def reference(tmp_path: Path) -> AsyncIterator[Reference]:
    async with reference_on_anvil(tmp_path) as deployed:
        yield deployed


@pytest.fixture
async def engine_url(database_url: str, bridge: None) -> AsyncIterator[str]:
    """The database's URL for the engine's login, as `tayho db migrate` makes it."""
    del bridge
    name = f"engine_{uuid4().hex[:8]}"
    await make_identities(database_url, {"engine": Credentials(name, PASSWORD)})
    yield url_of(database_url, name)
    await as_owner(database_url, f"DROP OWNED BY {name} CASCADE", f"DROP ROLE {name}")


def signed(child: Child) -> SignedIntent:
    return SignedIntent(child.intent, child.signature)


async def address_of(replica: Replica, event: str) -> str:
    def bind() -> str | None:
        replica.check()
        found = re.search(rf'"{event}".*?"bind": "([^"]+)"', replica.log.read_text())
        return found and found[1]

    await until(bind, seconds=30, what=f"the replica to say {event}")
    return f"http://{bind()}"


async def test_an_engine_asks_the_contract_and_cannot_read_the_journal(
    reference: Reference, engine_url: str, redis_url: str, tmp_path: Path, database: Database
) -> None:
    """Goal: what a user may submit is the contract's to say, under a login without the journal (INT-1, INT-2). Method:
    run the program with its own login; intents that are good, of a key without a session, of another
    account, of another digest, and of a revoked session; then read the journal as it may not; then SIGTERM, and 0."""
    environment = {
        "DATABASE_URL": engine_url,
        "REDIS_URL": redis_url,
        "RPC_URL": reference.endpoint.shown,
        "CHAIN_ID": str(CHAIN.chain_id),
        "ENVIRONMENT": "test",
        "PROTOCOL_ADDRESS": str(reference.protocol),
        "ENGINE_IDENTITY_KEY": IDENTITY_KEY,
        "ENGINE_BIND": "127.0.0.1:0",
        "HTTP_BIND": "127.0.0.1:0",
        "LOG_FORMAT": "json",
    }
    async with fleet(tmp_path, environment) as replicas:
        await refuses_to_start_without_a_contract(replicas)
        (running,) = await replicas.start("engine", 1)
        health = await address_of(running, "http_listening")
        url = await address_of(running, "engine_listening")
        async with httpx2.AsyncClient(base_url=url, trust_env=False) as client:
            good = signed(reference.signed(reference.order()))
            nowhere = permit_of(reference.endpoint, IntentDomain(CHAIN.chain_id, Address(b"\x77" * 20)))
            assert await nowhere(good) == NotPermitted("NoSuchProtocol"), "what has no code refuses nothing by itself"
            accepted = await client.post("/v1/intents", json=body_of(good, reference.domain))
            assert accepted.status_code == 202, accepted.text
            status = await client.get(accepted.headers["location"])
            assert (status.status_code, status.json()["state"]) == (200, "pending_batch")
            ready = await client.get(f"{health}/readyz")
            assert (ready.status_code, ready.json()["reasons"]) == (200, [])

            of_nobody = signed(reference.signed(reference.order(), key=Key()))
            of_another = reference.intent(Action.PLACE_ORDER, "int128,uint64", 1, 0, account=reference.accounts[2])
            moved = evolve(good, intent=evolve(good.intent, account=reference.accounts[2]))
            foreign = reference.key.sign(bytes(32))
            refused = [of_nobody, signed(reference.signed(of_another)), moved, SignedIntent(reference.order(), foreign)]
            for one in refused:
                answer = await client.post("/v1/intents", json=body_of(one))
                assert is_problem(answer, 403, "intent-not-permitted")
                assert answer.json()["reason"] == "SessionUnknown"
            await reference.do("revokeSession", reference.key.address, account=1)
            late = await client.post("/v1/intents", json=body_of(signed(reference.signed(reference.order()))))
            assert is_problem(late, 403, "intent-not-permitted")
            # What was taken stays taken, and is answered as before.
            again = await client.post("/v1/intents", json=body_of(good))
            assert (again.status_code, again.json()["id"]) == (200, accepted.json()["id"])
        async with Database.open(engine_url, pool_size=2, application_name="engine") as as_engine:
            for table in ("transactions.members", "transactions.lineages"):
                with pytest.raises(Refused, match="permission denied"):
                    async with as_engine.connection() as connection:
                        await connection.fetch(f"SELECT * FROM {table}")
        await ends_in_order(running, health, url, body_of(good))
        log = running.log.read_text()
    assert "Traceback" not in log
    assert '"level": "error"' not in log


async def ends_in_order(running: Replica, health: str, url: str, body: dict[str, object]) -> None:
    """What came in by half before the SIGTERM is answered, and only then does the process end."""
    whole = request("POST", "/v1/intents", json.dumps(body).encode())
    host, _, port = url.removeprefix("http://").rpartition(":")
    async with (
        await trio.open_tcp_stream(host, int(port)) as stream,
        httpx2.AsyncClient(base_url=health, trust_env=False) as probe,
    ):
        await stream.send_all(whole[:-20])
        async with httpx2.AsyncClient(base_url=url, trust_env=False) as other:
            # Answered after it, and so after the head was read.
            assert (await other.get("/docs")).status_code == 200
        running.terminate()

        async def is_draining() -> bool:
            return "draining" in (await probe.get("/readyz")).text

        await until(is_draining, seconds=20, what="the drain to begin")
        await stream.send_all(whole[-20:])
        assert (await stream.receive_some()).startswith(b"HTTP/1.1 200 ")
    with trio.fail_after(30):
        assert await running.process.wait() == 0


async def refuses_to_start_without_a_contract(replicas: Fleet) -> None:
    """An address without code refuses nothing: an engine before it would take everything."""
    (wrong,) = await replicas.start("engine", 1, {"PROTOCOL_ADDRESS": "0x" + "7" * 40})
    wrong.is_expected_to_end = True
    assert await wrong.process.wait() == 3
    assert "there is no contract at 0x7777" in wrong.log.read_text()
    replicas.replicas.remove(wrong)


def test_the_documents_table_of_codes_is_the_codes() -> None:
    """Goal: a client may rely on the page. Method: its table against the table in the code, both ways."""
    rows = table_of(text_of(DOCUMENT), "code")
    assert rows == [[f"`{code.name}`", str(int(code.status)), code.title] for code in CODES]
