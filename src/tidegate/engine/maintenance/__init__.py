"""Upkeep of tables, and going back to an earlier version."""
