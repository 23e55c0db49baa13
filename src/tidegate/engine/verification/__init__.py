"""Proof that a table holds what its source holds."""
