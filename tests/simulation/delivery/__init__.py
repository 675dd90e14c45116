"""Several replicas, real PostgreSQL, Redis and BullMQ, and whatever can go wrong between them."""
