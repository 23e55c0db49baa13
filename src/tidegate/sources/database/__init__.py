"""Tables and queries of a database."""

from tidegate.sources.database.source import Database

__all__ = ["Database"]
