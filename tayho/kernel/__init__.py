"""Values that every context shares: pure, and importing nothing else of ours."""
