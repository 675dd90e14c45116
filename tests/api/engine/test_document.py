"""The OpenAPI document and what is really answered say the same, whatever is sent (INT-1)."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import requests
import schemathesis
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.checks import CheckFunction
from schemathesis.specs.openapi.checks import (
    positive_data_acceptance,
)

from tayho.api.engine.codes import CODES
from tayho.api.engine.document import openapi_document
from tayho.api.engine.wire import DOMAIN as DOMAIN_FIELD
from tayho.api.engine.wire import FIELDS
from tests.api.engine.replicas import PROBLEM, Replica, body_of
from tests.intents.conftest import DOMAIN, Line, intent, signed

pytestmark = [
    pytest.mark.services,
    # The engine beside the thread that draws jitters its looks.
    pytest.mark.filterwarnings("ignore:Do not use the `random` module"),
]

# Of each route, with what the document allows and with what it forbids.
CASES = 12
BODIES = 100
# A schema cannot say what a signature or a deadline must be: what fits it may be refused all the same.
NOT_CHECKED: list[CheckFunction] = [positive_data_acceptance]
LEAN = partial(
    settings,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


async def in_a_thread(play: Callable[[], None]) -> None:
    """What blocks, beside the engine that it asks."""
    await trio.to_thread.run_sync(play)


async def test_every_answer_is_one_of_the_document(engine: Replica, caplog: pytest.LogCaptureFixture) -> None:
    """Goal: no 5xx, and no answer that the document does not know. Method: Schemathesis sends what each route allows
    and what it forbids, and holds status, headers, type and body of each answer to the document."""
    schema = schemathesis.openapi.from_dict(openapi_document())
    base = f"http://{engine.bind}"

    def play() -> None:
        with requests.Session() as session:
            for found in schema.get_all_operations():
                operation = found.ok()
                # What takes nothing can be sent nothing wrong.
                modes = GenerationMode if operation.body or operation.path_parameters else [GenerationMode.POSITIVE]
                for mode in modes:

                    @LEAN(max_examples=CASES)
                    @given(case=operation.as_strategy(mode))
                    def answers_as_it_says(case: Case) -> None:
                        case.call_and_validate(base_url=base, session=session, excluded_checks=NOT_CHECKED)

                    answers_as_it_says()

    await in_a_thread(play)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(),
        st.text(max_size=80),
        st.from_regex(r"0x([0-9a-f]{2}){0,70}", fullmatch=True),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=6,
)


async def test_no_intent_is_answered_with_an_error_of_ours(
    engine: Replica, line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    """Goal: the same for intents that are nearly right. Method: a good intent with some fields changed to anything,
    taken away or added, and bytes of the whole flipped: a 2xx, or a problem document with a known code."""
    good = body_of(signed(intent(), line.key), DOMAIN)
    codes = {code.name: int(code.status) for code in CODES}
    names = st.sampled_from([*FIELDS, DOMAIN_FIELD, "other"])

    def play() -> None:
        with requests.Session() as session:

            @LEAN(max_examples=BODIES)
            @given(
                changes=st.dictionaries(names, VALUES, max_size=3),
                gone=st.sets(names, max_size=1),
                flips=st.lists(st.tuples(st.integers(0, 5_000), st.integers(0, 255)), max_size=2),
            )
            def is_answered(changes: dict[str, Any], gone: set[str], flips: list[tuple[int, int]]) -> None:
                body = {name: value for name, value in {**good, **changes}.items() if name not in gone}
                octets = bytearray(json.dumps(body).encode())
                for place, octet in flips:
                    octets[place % len(octets)] = octet
                answer = session.post(
                    f"http://{engine.bind}/v1/intents",
                    data=bytes(octets),
                    headers={"Content-Type": "application/json"},
                    timeout=10,
                )
                if answer.status_code not in {200, 202}:
                    assert answer.headers["content-type"] == PROBLEM
                    document = answer.json()
                    assert codes[document["code"]] == answer.status_code < 500
                    assert "Traceback" not in answer.text

            is_answered()

    await in_a_thread(play)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_the_document_and_its_page_are_served_and_load_nothing(engine: Replica) -> None:
    """Goal: what describes the engine comes from the engine. Method: read both; the page names no other source; every
    code stands in the document."""
    document = await engine.client.get("/openapi.json")
    assert (document.status_code, document.headers["content-type"]) == (200, "application/json")
    assert document.json()["openapi"] == "3.1.0"
    assert [code.name for code in CODES if f'"{code.name}"' not in document.text] == [
        "route-unknown",
        "method-not-allowed",
    ]
    page = await engine.client.get("/docs")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "POST /v1/intents" in page.text
    for way in ("src=", "href=", "@import", "url(", "<script"):
        assert way not in page.text
