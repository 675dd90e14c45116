"""The alert rules, their runbooks and the dashboard: each names only what this code shows and understands (OPS-14)."""

from __future__ import annotations

import json
import re
import shlex
from functools import cache
from typing import Any

import click
import pytest
import yaml
from attrs import frozen
from prometheus_client.metrics import MetricWrapperBase

from tayho.cli.main import main
from tayho.coordination.types import Happening
from tayho.kernel.transitions import LANE, LINEAGE
from tayho.observability import Metrics
from tayho.transactions.types import Happening as TxHappening
from tests.deploy.manifests import DEPLOY
from tests.deploy.queries import OF_THE_TARGET, Query, Selection, labels_named, parse
from tests.docs.markdown import ROOT, blocks, names_in, table_of, text_of

ALERTS = sorted((DEPLOY / "alerts").glob("*.yaml"))
RUNBOOKS = sorted((ROOT / "docs" / "runbooks").glob("*.md"))
DASHBOARD = DEPLOY / "grafana" / "tayho.json"
HEADINGS = ["What it means", "Look", "Do", "Do not", "It is over when"]
# The words that a label may have, where the code has a list of them.
WORDS = {
    ("tayho_deliveries_total", "what"): {one.value for one in Happening},
    ("tayho_transactions_total", "what"): {one.value for one in TxHappening},
    ("tayho_lane_state", "state"): set(LANE.states),
    ("tayho_lineages", "state"): set(LINEAGE.states),
    ("tayho_unready", "check"): {
        name for row in table_of(text_of("docs/operations.md"), "check") for name in names_in(row[0])
    },
}


@frozen
class Alert:
    """One rule as it stands in its file."""

    name: str
    rule: dict[str, Any]

    @property
    def query(self) -> Query:
        return parse(self.rule["expr"])

    @property
    def runbook(self) -> str:
        return f"docs/runbooks/{self.name}.md"


@cache
def alerts() -> tuple[Alert, ...]:
    """Every alert of every file."""
    groups = [group for path in ALERTS for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]]
    return tuple(Alert(rule["alert"], rule) for group in groups for rule in group["rules"])


@cache
def shown() -> dict[str, MetricWrapperBase]:
    """Every sample name that a process can show, and its instrument."""
    return dict(Metrics()._registry._names_to_collectors)


def queries_of_dashboard() -> list[tuple[str, str]]:
    """Panel and query, of every panel."""
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]
    return [(panel["title"], target["expr"]) for panel in panels for target in panel["targets"]]


def family(selection: Selection) -> str:
    """The metric as a whole, of a histogram's parts."""
    return selection.metric.removesuffix("_bucket").removesuffix("_count")


def assert_shown(selection: Selection) -> None:
    """The process shows this metric, and it has these labels, with words that the code knows."""
    assert selection.metric in shown(), selection.metric
    own = set(getattr(shown()[selection.metric], "_labelnames", ()))
    if selection.metric.endswith("_bucket"):
        own.add("le")
    for name, operator, value in selection.matchers:
        assert name in own | OF_THE_TARGET, (selection.metric, name)
        words = WORDS.get((selection.metric, name))
        if words is not None and value and not value.startswith("$"):
            asked = set(value.split("|")) if operator in {"Re", "NotRe"} else {value}
            assert asked <= words, (selection.metric, name, asked - words)


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert.name)
def test_an_alert_reads_what_is_there(alert: Alert) -> None:
    """Goal: no alert that can never fire. Method: its query is one, its metrics and labels are those of the registry,
    and what it says of itself uses labels that the query leaves it."""
    query = alert.query
    assert query.selections
    for selection in query.selections:
        assert_shown(selection)
    annotations = alert.rule["annotations"]
    assert annotations.keys() == {"summary", "description", "runbook"}
    assert labels_named(json.dumps(annotations)) <= query.grouped
    assert query.grouped <= OF_THE_TARGET | {
        name for one in query.selections for name in getattr(shown()[one.metric], "_labelnames", ())
    }
    assert alert.rule["labels"] in ({"severity": "page"}, {"severity": "ticket"})
    assert annotations["runbook"] == alert.runbook


def test_an_increase_has_a_zero_to_rise_from() -> None:
    """Goal: the first event is seen. Method: a series that begins with its first event shows no increase by it, so each
    that is asked for by name is shown as 0 from the start of the process."""
    fresh = Metrics()
    fresh.begin()
    begun = [
        sample for family in fresh._registry.collect() for sample in family.samples if sample.name.endswith("_total")
    ]
    for alert in alerts():
        for one in alert.query.selections:
            if one.is_increase and one.metric in {"tayho_deliveries_total", "tayho_transactions_total"}:
                asked = {name: value for name, operator, value in one.matchers if operator == "Equal"}
                assert asked, alert.name
                assert [
                    sample for sample in begun if sample.name == one.metric and asked.items() <= sample.labels.items()
                ], (alert.name, asked)


def test_every_alert_has_its_runbook_and_every_runbook_its_alert() -> None:
    """Goal: who is woken finds the page. Method: the names of both."""
    names = [alert.name for alert in alerts()]
    assert len(names) == len(set(names))
    assert {f"{name}.md" for name in names} == {path.name for path in RUNBOOKS}
    listed = [names_in(row[0])[0] for row in table_of(text_of("docs/operations.md"), "alert")]
    assert listed == names


def commands_of(text: str) -> list[str]:
    """Every command that a page tells somebody to type."""
    lines = [line for block in blocks(text, "sh") for line in block.splitlines()]
    return [line for line in (*lines, *names_in(text)) if line.startswith("tayho ")]


@pytest.mark.parametrize("path", RUNBOOKS, ids=lambda path: path.stem)
def test_a_runbook_is_whole_and_its_commands_are_there(path: Any) -> None:
    """Goal: a page that can be followed at night. Method: its five parts in their order, none empty; each command is
    taken apart by the command line's own parser: its name, its options, the number of its arguments."""
    text = path.read_text(encoding="utf-8")
    parts = re.split(r"^## (.*)$", text, flags=re.MULTILINE)
    assert parts[0].strip() == f"# {path.stem}"
    assert parts[1::2] == HEADINGS
    assert all(part.strip() for part in parts[2::2])
    commands = commands_of(text)
    assert commands
    for command in commands:
        assert_understood(command)


def assert_understood(line: str) -> None:
    """The command line knows this command with these options and so many arguments."""
    words = shlex.split(line)[1:]
    command: click.Command = main
    context = click.Context(main)
    while isinstance(command, click.Group):
        name = words.pop(0)
        found = command.get_command(context, name)
        assert found is not None, line
        command, context = found, click.Context(found, parent=context, info_name=name)
    given, left, _ = command.make_parser(context).parse_args(words)
    assert not left, line
    for parameter in command.params:
        if isinstance(parameter, click.Argument) and parameter.required:
            assert given.get(parameter.name or ""), (line, parameter.name)
        if isinstance(parameter.type, click.Choice) and given.get(parameter.name or "") is not None:
            assert given[parameter.name or ""] in parameter.type.choices, line


@pytest.mark.parametrize("wrong", ["tayho jobs dead --eror X", "tayho world adopt", "tayho lane", "tayho tx bump A B"])
def test_a_command_that_is_none_is_found(wrong: str) -> None:
    """Goal: the check above checks. Method: a misspelt option, a missing argument, no command, an argument too many."""
    with pytest.raises((AssertionError, click.UsageError)):
        assert_understood(wrong)


def test_every_panel_reads_what_is_there() -> None:
    """Goal: no empty panel. Method: each query against the registry; no two panels of one title; rows as they are
    meant to be read."""
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    rows = [panel["title"] for panel in board["panels"] if panel["type"] == "row"]
    assert rows == ["Health", "Delivery", "Transactions", "Lanes", "Endpoints"]
    queries = queries_of_dashboard()
    for _, text in queries:
        for selection in parse(text).selections:
            assert_shown(selection)
    titles = [panel["title"] for panel in board["panels"]]
    assert len(titles) == len(set(titles))
    places = [tuple(panel["gridPos"].values()) for panel in board["panels"]]
    assert len(places) == len(set(places))


def test_what_is_alerted_on_can_be_seen() -> None:
    """Goal: who opens the dashboard sees what woke him. Method: every metric of an alert is in some panel."""
    alerted = {family(one) for alert in alerts() for one in alert.query.selections}
    seen = {family(one) for _, text in queries_of_dashboard() for one in parse(text).selections}
    assert alerted <= seen, alerted - seen
