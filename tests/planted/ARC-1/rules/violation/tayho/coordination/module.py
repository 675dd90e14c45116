"""A context with a face."""


class Coordination:
    """The face."""
