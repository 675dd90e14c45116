"""Another context."""
