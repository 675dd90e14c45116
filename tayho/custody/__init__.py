"""Custody: key material, signing, sealing (CTX-1, TX-2). Key cryptography is imported only here."""
