"""Why nothing of a source is believed. Each is a finding, and none makes a transaction."""

from __future__ import annotations


class SourceRefused(Exception):
    """The base of all: `name` is the finding's. No message quotes a key or the answer itself."""

    name = "refused"


class SourceSilent(SourceRefused):
    """There was no answer in time."""

    name = "silent"


class SourceUnusable(SourceRefused):
    """There was an answer, and it is none: not HTTP 200, too large, no JSON, no number where one should be."""

    name = "unusable"


class SourceForged(SourceRefused):
    """The answer is not the configured one's word: another signer, another certificate, about something else."""

    name = "forged"


class ValueStale(SourceRefused):
    """The observation is older than is believed."""

    name = "stale"


class ValueAhead(SourceRefused):
    """The observation is from the future."""

    name = "ahead"


class ValueAbsurd(SourceRefused):
    """The value is outside its bounds."""

    name = "absurd"


class ValueJumped(SourceRefused):
    """The value is further from the last one than a step goes."""

    name = "jumped"
