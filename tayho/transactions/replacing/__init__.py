"""Other transactions at a nonce that has one: higher fees, cancellations, and the holds in between (TX-7, TX-10)."""
