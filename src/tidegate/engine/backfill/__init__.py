"""Backfills: reloading a range of a source."""
