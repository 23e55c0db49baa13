"""Tables and queries of a database as a source."""

from tidegate.sources.database.source import Database, dialect_of

__all__ = ["Database", "dialect_of"]
