"""Change logs as a source: files, tables, topics and replication slots."""

from tidegate.sources.change_log.source import ChangeLog

__all__ = ["ChangeLog"]
