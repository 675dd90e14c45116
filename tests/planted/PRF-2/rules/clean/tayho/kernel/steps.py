"""The listed steps."""

STEPS: frozenset[str] = frozenset({"journal.after_persist", "broadcast.after_send", "journal.after_mark"})
