"""Oracle."""

from tidegate.dialects.oracle.dialect import Oracle

__all__ = ["Oracle"]
