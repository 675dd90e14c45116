"""All the rules, in one list."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import MappingProxyType

from tools.rules import (
    cleanups,
    concurrency,
    context_boundary,
    durable_effects,
    key_declarations,
    key_making,
    migrations,
    money,
    query_owner,
    source_layout,
    sql_text,
    states_in_python,
    states_in_sql,
    step_names,
)
from tools.rules.house import Finding, House

CHECKS: MappingProxyType[str, Callable[[House], Iterator[Finding]]] = MappingProxyType(
    {
        "context_boundary": context_boundary.check,
        "key_making": key_making.check,
        "key_declarations": key_declarations.check,
        "money": money.check,
        "source_layout": source_layout.check,
        "sql_text": sql_text.check,
        "query_owner": query_owner.check,
        "migrations": migrations.check,
        "cleanups": cleanups.check,
        "concurrency": concurrency.check,
        "states_in_sql": states_in_sql.check,
        "states_in_python": states_in_python.check,
        "durable_effects": durable_effects.check,
        "step_names": step_names.check,
    }
)


def findings_in(root: Path) -> list[Finding]:
    """Every finding of every rule in the house at `root`, in order of place."""
    house = House.read(root)
    return sorted(finding for check in CHECKS.values() for finding in check(house))
