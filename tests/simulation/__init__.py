"""The system under random interleavings of work and faults (PRF-3)."""
