"""PromQL as deploy/ uses it, taken apart: which metrics a query reads, by which labels, and what labels it answers."""

from __future__ import annotations

import re

import promql_parser
from attrs import frozen

# What a collector adds to every series of a process.
OF_THE_TARGET = frozenset({"job", "instance"})


@frozen
class Selection:
    """One metric that is read, and what is asked of its labels: name, operator, value."""

    metric: str
    matchers: tuple[tuple[str, str, str], ...]
    # Read as the change over some time, and not as it stands.
    is_increase: bool


@frozen
class Query:
    """A query that Prometheus understands."""

    selections: tuple[Selection, ...]
    # The labels that it groups by, anywhere.
    grouped: frozenset[str]


def parse(text: str) -> Query:
    """Read a query. Raises ValueError where it is none."""
    whole = promql_parser.parse(text.replace("$__rate_interval", "5m").replace("$__range", "1h"))
    selections: list[Selection] = []
    grouped: set[str] = set()
    changing: set[str] = set()

    def visit(expression: promql_parser.Expr) -> bool:
        match expression:
            case promql_parser.MatrixSelector():
                changing.add(str(expression.vector_selector.prettify()))
            case promql_parser.VectorSelector():
                matchers = tuple(
                    (one.name, str(one.op).rpartition(".")[2], one.value) for one in expression.matchers.matchers
                )
                is_increase = str(expression.prettify()) in changing
                selections.append(Selection(expression.name or "", matchers, is_increase))
            case promql_parser.AggregateExpr():
                grouped.update(expression.modifier.labels if expression.modifier is not None else ())
            case _:
                pass
        return True

    promql_parser.walk(whole, visit)
    return Query(tuple(selections), frozenset(grouped))


def labels_named(template: str) -> set[str]:
    """The labels that an annotation shows."""
    return set(re.findall(r"\$labels\.(\w+)", template))
