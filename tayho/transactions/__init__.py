"""Lanes, lineages, the journal of signed transactions, broadcast and reconciliation (TX)."""
