"""docs/guarantees.md names only what is there: constraints in the database, code, tests (PRF-6)."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest
from attrs import frozen

from storage.database import Database
from tests.docs.markdown import ROOT, names_in, table_of, tables, text_of

DOCUMENT = "docs/guarantees.md"
_CONSTRAINT = re.compile(r"(?P<migration>\d{4}_\w+\.sql): (?P<name>\w+)")
_TEST = re.compile(r"(?P<path>tests/[\w/]+\.py)::(?P<name>test_\w+)")
_IN_DATABASE = """
    SELECT conname::text AS name FROM pg_constraint
    UNION SELECT relname::text FROM pg_class WHERE relkind = 'i'
    UNION SELECT tgname::text FROM pg_trigger WHERE NOT tgisinternal
"""


@frozen
class Claim:
    """One row of the page."""

    text: str
    held_by: str
    attacked_by: tuple[str, ...]

    @property
    def constraints(self) -> list[tuple[str, str]]:
        """Migration and name of each constraint; none where code holds the claim."""
        matches = [_CONSTRAINT.fullmatch(name) for name in names_in(self.held_by)]
        return [(match["migration"], match["name"]) for match in matches if match is not None]


@cache
def claims() -> tuple[Claim, ...]:
    rows = [row for table in tables(text_of(DOCUMENT)) for row in table[1:]]
    return tuple(Claim(text, held, tuple(names_in(attacked))) for text, held, attacked in rows)


@cache
def _test_names(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_the_page_has_claims_and_each_is_made_once() -> None:
    """Goal: a page that parses to nothing must not pass. Method: count, and look for repetitions."""
    texts = [claim.text for claim in claims()]
    assert len(texts) > 30
    assert len(texts) == len(set(texts))


@pytest.mark.parametrize("claim", claims(), ids=lambda claim: claim.text[:60])
def test_a_claim_says_what_holds_it_and_what_attacks_it(claim: Claim) -> None:
    """Goal: no claim stands on air. Method: its holder is constraints of migrations that name them, or code that is
    there; its attackers are tests that are there."""
    if claim.held_by.startswith("code: "):
        assert all((ROOT / path).is_file() for path in names_in(claim.held_by))
    else:
        assert len(claim.constraints) == len(names_in(claim.held_by)), "each is `NNNN_name.sql: constraint`"
        for migration, name in claim.constraints:
            assert re.search(rf"\b{name}\b", text_of(f"sql/migrations/{migration}")), name
    assert names_in(claim.held_by)
    assert claim.attacked_by
    for named in claim.attacked_by:
        match = _TEST.fullmatch(named)
        assert match is not None, named
        assert match["name"] in _test_names(match["path"]), named


@pytest.mark.services
async def test_every_named_constraint_is_in_the_migrated_database(database: Database) -> None:
    """Goal: a constraint that a migration drops takes its claim with it. Method: ask the catalogue of a database."""
    async with database.connection() as connection:
        there = {row["name"] for row in await connection.fetch(_IN_DATABASE)}
    named = {name for claim in claims() for _, name in claim.constraints}
    assert named <= there, named - there


@pytest.mark.services
async def test_every_constraint_of_the_invariants_is_in_the_migrated_database(database: Database) -> None:
    """Goal: the table of invariants names what is there too. Method: its names that look like a constraint's."""
    rows = table_of(text_of("ARCHITECTURE.md").partition("## Invariants")[2], "")
    named = {name for _, _, held in rows for name in names_in(held) if re.fullmatch(r"[a-z]+_\w+", name)}
    async with database.connection() as connection:
        there = {row["name"] for row in await connection.fetch(_IN_DATABASE)}
    assert named
    assert named <= there, named - there
