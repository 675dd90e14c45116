"""A new room that nobody gave a layer."""
