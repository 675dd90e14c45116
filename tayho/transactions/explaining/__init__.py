"""A lineage whole, and why it is where it is (TX-12)."""
