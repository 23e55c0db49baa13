"""Delta tables."""

from tidegate.formats.delta.format import Delta

__all__ = ["Delta"]
