"""Spark SQL, and exact parsing of text and JSON in it."""

from tidegate.dialects.spark.dialect import Spark

__all__ = ["Spark"]
