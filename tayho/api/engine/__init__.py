"""The public face of the role engine: intents in, statuses out, by strangers, without a key (INT-1)."""
