"""Intents."""
