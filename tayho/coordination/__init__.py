"""Jobs, their outbox, their attempts and the workers that carry them out (DLV)."""
