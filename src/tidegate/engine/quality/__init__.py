"""Checks of the rows of a load."""
