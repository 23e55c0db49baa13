"""Trino."""

from tidegate.dialects.trino.dialect import Trino

__all__ = ["Trino"]
