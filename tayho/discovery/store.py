"""The statements of `sql/discovery`, and their rows as values."""

from __future__ import annotations

from storage.connection import Row
from storage.queries import command, many
from storage.rows import value_from
from tayho.discovery.types import FindingRecord

OCCASIONS_OF = many("discovery/occasions.occasions_of")
BEGIN_WAITING = command("discovery/occasions.begin_waiting")
ADVANCE_IF_WAITED = many("discovery/occasions.advance_if_waited")
RECORD_FINDINGS = many("discovery/findings.record_findings")
NEWEST_FINDINGS = many("discovery/findings.newest_findings")


def finding_of(row: Row) -> FindingRecord:
    return value_from(FindingRecord, row)
