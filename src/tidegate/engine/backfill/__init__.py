"""Ranges of a source that are loaded once more."""
