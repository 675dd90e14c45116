"""The one setting that the schema commands need."""

from __future__ import annotations

from collections.abc import Mapping

from tayho.config import variables as table
from tayho.config.errors import ConfigurationRefused, Problem
from tayho.config.kinds import Unusable
from tayho.config.reading import read_mounted, read_texts


def database_url_from(environ: Mapping[str, str]) -> str:
    """DATABASE_URL, or the content of DATABASE_URL_FILE. Raises ConfigurationRefused."""
    variable = table.DATABASE_URL
    texts = read_texts(environ, [variable], read_mounted)
    problems = list(texts.problems)
    if variable.name in texts.found:
        try:
            return str(variable.kind.read(texts.found[variable.name].content))
        except Unusable as refused:
            problems.append(Problem(variable.name, variable.kind.expected, refused.found))
    elif not problems:
        problems.append(Problem(variable.name, variable.kind.expected, "nothing"))
    raise ConfigurationRefused(problems)
