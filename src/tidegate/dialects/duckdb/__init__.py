"""DuckDB."""

from tidegate.dialects.duckdb.dialect import Duckdb

__all__ = ["Duckdb"]
