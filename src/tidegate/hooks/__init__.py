"""Hooks, one file per kind, that a stream's `after_publish:` runs once a load is published."""
