"""Taking a signer out of its pool, and a key out of the journal, with nothing lost (OPS-7, OPS-8)."""
