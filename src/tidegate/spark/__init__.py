"""Spark: sessions, DataFrame operations and error translation."""
