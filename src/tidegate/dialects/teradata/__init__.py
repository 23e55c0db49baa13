"""Teradata."""

from tidegate.dialects.teradata.dialect import Teradata

__all__ = ["Teradata"]
