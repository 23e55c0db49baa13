"""Spark SQL, and exact parsing of text and JSON in it."""

from tidegate.dialects.spark.dialect import LONG_STRINGS, Spark

__all__ = ["LONG_STRINGS", "Spark"]
