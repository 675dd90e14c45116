"""An await that never yields to the scheduler: for work that is asynchronous in form only."""

from collections.abc import Generator


class AtOnce:
    """`await AtOnce()` goes on without a checkpoint."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()
