"""Generating what each context shows the others (CTX-12)."""
