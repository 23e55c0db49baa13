"""Verification: proof that a table equals its source."""
