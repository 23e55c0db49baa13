"""Spark SQL, and how it reads texts and documents exactly."""

from tidegate.dialects.spark.dialect import Spark

__all__ = ["Spark"]
