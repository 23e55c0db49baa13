"""Rows that were set aside, and how they come back."""
