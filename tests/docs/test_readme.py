"""The README opens with what a newcomer needs, and its table and examples are those of the code."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import cast

import asyncpg
import attrs
import pytest

from nursery.asyncio_bridge import run_asyncio
from storage.database import Database
from tayho.api.engine.wire import read_submission
from tayho.cli.main import COMMANDS
from tayho.client import Intent, IntentDomain, IntentProgress, SessionKey
from tayho.config import Settings
from tayho.config.variables import VARIABLES
from tayho.coordination.module import JobReader
from tayho.coordination.types import Enqueued
from tayho.custody.module import recovered
from tayho.intents.admission import examine
from tayho.kernel.address import Address
from tayho.kernel.ids import new_id
from tayho.kernel.jobs import Job
from tayho.kernel.roles import ROLES
from tayho.kinds import OnChainKind
from tayho.plugins import GROUP
from tests.client.intents import DOMAIN, local_key, progress_document, signed_order, taken_document
from tests.client.scripted_engine import answer, events, scripted_engine
from tests.docs.markdown import ROOT, blocks, names_in, text_of
from tools.settings_table import main as settings_table

SCREEN_LINES = 24
DESTINATION = "0x" + "77" * 20

Wish = Callable[[str, IntentDomain, Intent, SessionKey], Awaitable[IntentProgress]]
Order = Callable[[asyncpg.Connection, int, str, int], Awaitable[Enqueued]]


def _example(name: str) -> object:
    """What the README's Python defines under this name."""
    defined: dict[str, object] = {}
    for block in blocks(text_of("README.md"), "python"):
        exec(compile(block, "README.md", "exec"), defined)  # noqa: S102 - our own document
    return defined[name]


def test_the_two_commands_stand_on_the_first_screen() -> None:
    """Goal: set-up in two commands, seen at once. Method: look for both among the first lines."""
    opening = text_of("README.md").splitlines()[:SCREEN_LINES]
    assert opening[0] == "# tayho"
    assert {"make demo", "make test"} <= set(opening)


def test_the_table_of_settings_is_fresh() -> None:
    """Goal: the README knows every variable as the code reads it. Method: the generator's own check."""
    assert settings_table(["--check"]) == 0


def test_the_settings_that_change_nothing_yet_are_named() -> None:
    """Goal: nobody tunes what has no effect. Method: the variables that no code outside of the configuration reads."""
    sources = [path.read_text() for path in (ROOT / "tayho").rglob("*.py") if path.parent.name != "config"]
    read = {name for source in sources for name in re.findall(r"settings\.(\w+)", source)}
    unread = {name.upper() for name in attrs.fields_dict(Settings) if name not in read}
    told = re.findall(r"^Read and checked already.*?\n\n", text_of("README.md"), re.DOTALL | re.MULTILINE)
    assert {name for paragraph in told for name in names_in(paragraph)} == unread & {one.name for one in VARIABLES}


@pytest.mark.parametrize("document", ["README.md", "docs/operations.md"])
def test_every_command_that_is_named_is_there(document: str) -> None:
    """Goal: no command of the documents is made up. Method: the word after `tayho`, in backticks and shell blocks."""
    text = text_of(document)
    lines = [*names_in(text), *(line for block in blocks(text, "sh") for line in block.splitlines())]
    named = {line.split()[1] for line in lines if line.startswith("tayho ") and line.split()[1].isalpha()}
    assert named <= COMMANDS.keys(), named - COMMANDS.keys()
    assert named


async def test_the_example_of_a_kind_is_a_kind() -> None:
    """Goal: the ten lines can be copied. Method: run them, and ask the kind for its call."""
    kind = cast("Callable[[], object]", _example("InvoicePay"))()
    assert isinstance(kind, OnChainKind)
    assert ROLES[kind.role].signs
    (declared,) = blocks(text_of("README.md"), "toml")
    assert tomllib.loads(declared)["project"]["entry-points"][GROUP] == {"invoice-pay": "shop.kinds:InvoicePay"}
    request = {"to": DESTINATION, "wei": "7"}
    call = await kind.call(
        Job(new_id(), 31337, "test", kind.role, kind.name, "invoice-1", request, 1, False, datetime.now(UTC))
    )
    assert (call.to, call.value_wei) == (Address.parse(DESTINATION), 7)


def test_the_intent_of_the_curl_example_is_signed_as_it_says() -> None:
    """Goal: what one copies is what an engine reads. Method: read the body as an engine does; recover its signer."""
    (body,) = re.findall(r"-d '(\{.*?\})'", text_of("README.md"), re.DOTALL)
    told = json.loads(body)["domain"]
    domain = IntentDomain(told["chainId"], Address.parse(told["verifyingContract"]))
    signed = read_submission(body.encode(), domain)
    examined = examine(signed, domain, recover=recovered)
    assert examined.session_key == local_key().address


async def test_the_example_of_a_wish_submits_and_waits() -> None:
    """Goal: the client's five lines can be copied. Method: run them against an engine that takes and tells."""
    wish = cast("Wish", _example("wish"))
    signed = signed_order()
    async with scripted_engine() as engine:
        engine.behave(answer(202, taken_document(signed)), events(("1", progress_document("completed"))))
        last = await wish(engine.url, DOMAIN, signed.intent, local_key())
    assert last.is_final


@pytest.mark.services
async def test_the_example_of_an_order_commits_both_or_neither(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Goal: the embedding example does what it says. Method: run it twice, the second time against a row that is there:
    the invoice and the job are one, and the failed order leaves no job."""
    order = cast("Order", _example("order"))
    monkeypatch.setenv("CHAIN_ID", "31337")
    monkeypatch.setenv("ENVIRONMENT", "test")

    async def two_orders() -> Enqueued:
        connection = await asyncpg.connect(database_url)
        await connection.execute("CREATE TABLE invoices (id int PRIMARY KEY)")
        await connection.execute("INSERT INTO invoices (id) VALUES (2)")
        first = await order(connection, 1, DESTINATION, 7)
        with pytest.raises(asyncpg.UniqueViolationError, match="invoices_pkey"):
            await order(connection, 2, DESTINATION, 7)
        await connection.close()
        return first

    first = await run_asyncio(two_orders)
    (line,) = await JobReader(database, 31337, "test").list_recent()
    assert (line.job_id, line.kind, line.role) == (first.job_id, "invoice.pay", "payouts")
