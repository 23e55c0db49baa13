"""Iceberg tables."""

from tidegate.formats.iceberg.format import Iceberg

__all__ = ["Iceberg"]
