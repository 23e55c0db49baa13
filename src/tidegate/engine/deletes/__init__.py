"""Rows that the source no longer has."""
