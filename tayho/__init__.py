"""tayho: a durable coordinator of blockchain work."""
