"""Constants with logic."""

ATTEMPTS_MAX = 8

if ATTEMPTS_MAX > 5:  # breaks ARC-5
    DELAY_SECONDS = 2
