"""The settings that the schema commands need, and no process: whose database, and the logins that it is to have."""

from __future__ import annotations

from collections.abc import Mapping

from tayho.config import variables as table
from tayho.config.errors import ConfigurationRefused, Problem
from tayho.config.kinds import Unusable
from tayho.config.reading import read_mounted, read_texts
from tayho.config.variable import Variable


def database_url_from(environ: Mapping[str, str]) -> str:
    """DATABASE_URL, or the content of DATABASE_URL_FILE. Raises ConfigurationRefused."""
    variable = table.DATABASE_URL
    found = _urls(environ, [variable])
    if variable.name not in found:
        raise ConfigurationRefused([Problem(variable.name, variable.kind.expected, "nothing")])
    return found[variable.name]


def identity_urls_from(environ: Mapping[str, str]) -> dict[str, str]:
    """The URL of each identity that is set, by its name, such as RUNTIME_DATABASE_URL. Raises ConfigurationRefused."""
    found = _urls(environ, list(table.IDENTITY_VARIABLES.values()))
    return {
        identity: found[variable.name]
        for identity, variable in table.IDENTITY_VARIABLES.items()
        if variable.name in found
    }


def _urls(environ: Mapping[str, str], variables: list[Variable[str]]) -> dict[str, str]:
    texts = read_texts(environ, variables, read_mounted)
    problems = list(texts.problems)
    found: dict[str, str] = {}
    for variable in variables:
        if variable.name not in texts.found:
            continue
        try:
            found[variable.name] = str(variable.kind.read(texts.found[variable.name].content))
        except Unusable as refused:
            problems.append(Problem(variable.name, variable.kind.expected, refused.found))
    if problems:
        raise ConfigurationRefused(problems)
    return found
