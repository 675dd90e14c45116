"""Binds the queries."""

from storage.queries import command, many

MARK = command("transactions/journal.mark")
FIND = many("transactions/journal.find")
