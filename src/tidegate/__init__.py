"""Incremental loading into lakehouse tables: find what changed, move only that, exactly once, and prove it."""

__version__ = "0.1.0"
