"""The job plane against a real PostgreSQL, a real Redis and real concurrency."""
