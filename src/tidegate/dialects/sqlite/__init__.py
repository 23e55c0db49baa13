"""SQLite."""

from tidegate.dialects.sqlite.dialect import Sqlite

__all__ = ["Sqlite"]
