"""The listed steps."""

STEPS: frozenset[str] = frozenset(
    {
        "journal.after_sign",
        "journal.after_persist",
        "journal.never",  # breaks PRF-2
    }
)
