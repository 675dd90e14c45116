"""What coordination shows."""
