"""Tables and queries of a database as a source."""

from tidegate.sources.database.source import Database

__all__ = ["Database"]
