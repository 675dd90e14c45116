"""Signed intents: admitted once, waiting in a line, carried in batches, each ended by its own result (INT)."""
