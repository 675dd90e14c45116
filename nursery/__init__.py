"""Structured process life: tasks, stops, cleanups and the bridge to asyncio. Knows no database and no chain."""
