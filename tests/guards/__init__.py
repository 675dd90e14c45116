"""Each guard of the table is taken away once, in a copy of the tree, and its test must fail (PRF-4)."""
