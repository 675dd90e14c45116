"""Throw-away PostgreSQL, Redis and EVM node for `tayho dev`, `tayho demo`, local mode and the tests."""
