"""SQL Server."""

from tidegate.dialects.sqlserver.dialect import SqlServer

__all__ = ["SqlServer"]
