"""The cyclic garbage collector, calmed: a busy process makes thousands of objects a moment and few cycles."""

import gc

# CPython's default of some hundred objects runs the collector all the time under load: a fifth of a busy process.
ALLOCATIONS_PER_COLLECTION = 50_000


def calm_collector() -> None:
    """Look for garbage seldom, and never among what was made until now. Call it once, when all modules are imported."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(ALLOCATIONS_PER_COLLECTION, 20, 50)
