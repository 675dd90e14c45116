"""The rules of architecture that no ready-made linter can say: one file per rule, each a small visitor."""
