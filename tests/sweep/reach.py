"""What the delivery plane may send at all: read from the code, not from a play."""

import inspect
import re
from collections import defaultdict
from functools import cache
from typing import Any

from bullmq.backends.redis_backend import RedisBackend  # pyright: ignore[reportMissingTypeStubs]
from bullmq.job import Job  # pyright: ignore[reportMissingTypeStubs]
from bullmq.scripts import Scripts  # pyright: ignore[reportMissingTypeStubs]

from storage.bullmq_package import PackageBackend, PackageJob
from storage.queries import Command, Many, One, Scalar
from tayho.coordination import store

_CALL = re.compile(r"self\.(?:backend\.|scripts\.)?(\w+)\(")
_SCRIPT = re.compile(r"commands\[\"(\w+)\"\]")


def statements_in_reach() -> list[str]:
    """The references of the statements that coordination binds."""
    bound = [each for each in vars(store).values() if isinstance(each, Many | One | Scalar | Command)]
    return sorted(each.query.ref for each in bound)


def scripts_in_reach() -> list[str]:
    """The scripts that the package may ask for, in any of the operations that storage has of it."""
    left, seen, scripts = [*_methods_of(PackageBackend), *_methods_of(PackageJob)], set[str](), set[str]()
    while left:
        operation = left.pop()
        if operation in seen:
            continue
        seen.add(operation)
        for source in _sources()[operation]:
            left += _CALL.findall(source)
            scripts |= set(_SCRIPT.findall(source))
    return sorted(scripts)


@cache
def _sources() -> defaultdict[str, list[str]]:
    """The package's methods by name, wherever they are: over-reaching costs an excuse, and missing one a test."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for kind in (RedisBackend, Scripts, Job):
        for name, method in inspect.getmembers(kind, inspect.isfunction):
            found[name].append(inspect.getsource(method))
    return found


def _methods_of(protocol: Any) -> list[str]:
    return [name for name, _ in inspect.getmembers(protocol, inspect.isfunction) if not name.startswith("_")]
