"""What operators do to jobs, roles and limit keys (DLV-9, DLV-15)."""
