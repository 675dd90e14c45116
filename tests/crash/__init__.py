"""Kill the process at every named step, restart it, and ask the invariants."""
