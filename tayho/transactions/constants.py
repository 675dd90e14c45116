"""Numbers that more than one file of the context goes by."""

GAS_LIMIT_MAX = 2**24
"""The most gas that one transaction may ask for (EIP-7825)."""
