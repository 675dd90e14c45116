"""Each rule catches what is planted against it, and nothing else does (ARC-7)."""

import re
from pathlib import Path

import pytest

from tools.rules.every import CHECKS, findings_in
from tools.rules.house import House

PLANTED = Path(__file__).resolve().parents[1] / "planted"
MARK = re.compile(r"breaks ([A-Z]+-\d+)")
RULES = sorted(path.parents[1].name for path in PLANTED.glob("*/rules/violation"))


def marks_in(root: Path) -> set[tuple[str, int, str]]:
    """The places that the planted files themselves say are wrong: path, line, rule."""
    return {
        (path.relative_to(root).as_posix(), number, rule)
        for path in root.rglob("*.*")
        if path.suffix in (".py", ".sql")
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        for rule in MARK.findall(line)
    }


@pytest.mark.parametrize("rule", RULES)
def test_the_planted_violations_are_caught(rule: str) -> None:
    """Goal: a rule that stops catching is noticed. Method: the findings are exactly the lines that the files mark."""
    root = PLANTED / rule / "rules" / "violation"
    found = {(finding.path, finding.line, finding.rule) for finding in findings_in(root)}
    assert found == marks_in(root)
    assert any(name == rule for _, _, name in found)


@pytest.mark.parametrize("rule", RULES)
def test_the_clean_counterpart_passes(rule: str) -> None:
    """Goal: a rule is precise. Method: the same shapes done right raise no finding of any rule."""
    findings = findings_in(PLANTED / rule / "rules" / "clean")
    assert [str(finding) for finding in findings] == []


@pytest.mark.parametrize("check", sorted(CHECKS))
def test_every_check_is_needed(check: str) -> None:
    """Goal: no check is idle. Method: each finds something in some planted house that all the others together miss."""
    for rule in RULES:
        house = House.read(PLANTED / rule / "rules" / "violation")
        own = {(finding.path, finding.line, finding.rule) for finding in CHECKS[check](house)}
        others = {
            (finding.path, finding.line, finding.rule)
            for name, other in CHECKS.items()
            if name != check
            for finding in other(house)
        }
        if own - others:
            return
    pytest.fail(f"nothing is planted that {check} alone catches")


def test_every_message_tells_how_to_mend() -> None:
    """Goal: a finding helps. Method: each message of the planted findings goes on after its colon."""
    for rule in RULES:
        for finding in findings_in(PLANTED / rule / "rules" / "violation"):
            assert finding.message.partition(": ")[2], finding
