"""Several replicas of the transaction engine on a real chain, and whatever can go wrong between them and on it."""
