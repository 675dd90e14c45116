"""What builds, checks and generates beside the product; nothing here is imported by it."""
