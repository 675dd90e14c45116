"""Makes and checks the schema (OPS-1). Nothing else does: a process only reads the version at readiness."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from difflib import unified_diff
from importlib.resources import files
from itertools import islice
from typing import Final
from urllib.parse import quote, urlsplit
from uuid import uuid4

from attrs import frozen

from nursery.cleanup import finish
from storage.connection import BEGIN, Connection
from storage.database import Database
from storage.migration_files import (
    Applied,
    Migration,
    MigrationChanged,
    MigrationError,
    MigrationsMisnumbered,
    SchemaAhead,
    SchemaBehind,
    installed,
    next_migration,
    refuse_other_version,
)
from storage.queries import command, many, scalar
from storage.snapshot import snapshot_of
