"""Discovery: every replica looks for the same work, and PostgreSQL makes one job of it (DLV-13)."""
