"""The transaction engine against a real PostgreSQL and a real EVM node."""
