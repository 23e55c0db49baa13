"""The writer `scd2` (slowly changing dimension, type 2): keeps every version of a row with its validity period."""

from tidegate.writers.scd2.writer import Scd2

__all__ = ["Scd2"]
