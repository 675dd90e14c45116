"""Binds another context's query."""

from storage.queries import many

CLAIM_TOO = many("coordination/jobs.claim")  # breaks ARC-5
