"""Histories: every version of a row, with the time in which it was valid."""

from tidegate.writers.scd2.writer import Scd2

__all__ = ["Scd2"]
