"""Reading the whole configuration: every variable, then the rules between them, then one answer."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tayho.config import rules
from tayho.config import variables as table
from tayho.config.building import settings_of
from tayho.config.errors import ConfigurationRefused, Problem
from tayho.config.kinds import Unusable
from tayho.config.misspellings import misspelt
from tayho.config.reading import Texts, read_mounted, read_texts
from tayho.config.rules import Situation
from tayho.config.secret_kinds import read_journal_keys
from tayho.config.settings import Settings
from tayho.config.values import Values
from tayho.config.variable import Variable

INSTANCE_ID_BYTES = 6


def load_settings(
    environ: Mapping[str, str], roles: Sequence[str], *, read_file: Callable[[Path], str] = read_mounted
) -> Settings:
    """The settings of a process that runs these roles; without a role, of none in particular, as a check.

    Only `environ` and the files that it names are read: no `.env` file, no other source.

    Raises ConfigurationRefused with every problem found. Whatever keys were read by then are wiped.
    """
    texts = read_texts(environ, table.VARIABLES, read_file)
    situation = rules.situation_of(roles, texts)
    values = Values()
    problems = [
        *rules.role_problems(roles),
        *texts.problems,
        *_read_values(values, texts, situation),
        *_read_journal_keys(values, texts, situation),
        *rules.store_problems(values, texts, situation),
        *rules.engine_problems(values, texts, situation),
        *rules.batch_problems(values, texts),
        *rules.queue_problems(values),
        *rules.range_problems(values),
        *rules.voter_problems(values, situation),
    ]
    if problems:
        _wipe(values)
        raise ConfigurationRefused(sorted(problems, key=_place))
    warnings = (*rules.warnings_of(values, texts, situation), *misspelt(environ, table.VARIABLES))
    return settings_of(values, texts, situation, warnings)


def _read_values(values: Values, texts: Texts, situation: Situation) -> Iterator[Problem]:
    """Put the value of every variable that has one; yield a problem for each that is refused or required and unset."""
    for variable in table.VARIABLES:
        if variable in table.KEY_VARIABLES and situation.holds_no_key:
            continue
        if variable.name in texts.found:
            yield from _read_value(values, variable, texts.found[variable.name].content)
        elif variable.name not in texts.named:
            if situation.asks_for(variable.need) and variable.need is not None:
                yield Problem(variable.name, f"{variable.kind.expected} ({variable.need.value})", "nothing")
            elif variable.default is not None:
                yield from _read_value(values, variable, variable.default)
    write_url = values.find(table.RPC_URL)
    if write_url is not None and table.RPC_READ_URLS.name not in texts.named:
        values.put(table.RPC_READ_URLS, (write_url,))
    if table.INSTANCE_ID.name not in texts.named:
        values.put(table.INSTANCE_ID, secrets.token_hex(INSTANCE_ID_BYTES))


def _read_value(values: Values, variable: Variable[Any], content: str) -> Iterator[Problem]:
    try:
        values.put(variable, variable.kind.read(content))
    except Unusable as refused:
        why = f", because {refused.why}" if refused.why else ""
        yield Problem(variable.name, variable.kind.expected + why, refused.found)


def _read_journal_keys(values: Values, texts: Texts, situation: Situation) -> Iterator[Problem]:
    """Two variables make the ring: the keys as text, and the id of the active one."""
    content = values.find(table.TX_JOURNAL_KEYS_VARIABLE)
    if content is None:
        return
    active = table.TX_JOURNAL_ACTIVE_KEY_ID
    try:
        ring = read_journal_keys(content, values.find(active))
    except Unusable as refused:
        yield Problem(table.TX_JOURNAL_KEYS_VARIABLE.name, table.TX_JOURNAL_KEYS_VARIABLE.kind.expected, refused.found)
    else:
        values.hold_ring(ring)
    if active.name not in texts.named and not situation.asks_for(active.need):
        yield Problem(active.name, f"{active.kind.expected}, because TX_JOURNAL_KEYS is set", "nothing")


def _wipe(values: Values) -> None:
    held = (values.find(table.SIGNER_KEYS_VARIABLE), values.journal_keys, values.find(table.ENGINE_IDENTITY_KEY))
    for ring in held:
        if ring is not None:
            ring.wipe()


def _place(problem: Problem) -> int:
    """Problems stand in the order of the table, those of roles first."""
    names = [variable.name for variable in table.VARIABLES]
    name = problem.variable.removesuffix("_FILE")
    return names.index(name) if name in names else -1
