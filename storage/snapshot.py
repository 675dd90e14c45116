"""The schema of a database as text that is equal wherever the schema is: sql/schema.sql is the committed one."""

from typing import Final

from storage.database import Database
from storage.queries import command, many

_HEADER: Final = "-- What sql/migrations make, written by `tayho db snapshot`. Never edit it, never apply it.\n"

_qualify_names = command("storage/catalogue.qualify_names")
_sections: Final = (
    many("storage/catalogue.schemas"),
    many("storage/catalogue.extensions"),
    many("storage/catalogue.types"),
    many("storage/catalogue.sequences"),
    many("storage/catalogue.functions"),
    many("storage/catalogue.tables"),
    many("storage/catalogue.partitions"),
    many("storage/catalogue.later_constraints"),
    many("storage/catalogue.indexes"),
    many("storage/catalogue.views"),
    many("storage/catalogue.triggers"),
    many("storage/catalogue.row_security"),
    many("storage/catalogue.policies"),
)


async def snapshot_of(database: Database) -> str:
    """Every schema, type, function, table, constraint, index, view, trigger and policy, as statements.

    Raises what Database.transaction raises.
    """
    statements: list[str] = []
    # One view of the catalogue for all sections.
    async with database.transaction(isolation="repeatable read") as connection:
        await _qualify_names(connection)
        for section in _sections:
            statements += [row["statement"] for row in await section(connection)]
    return "\n".join([_HEADER, *(f"{statement}\n" for statement in statements)])
