"""Internal to coordination."""
