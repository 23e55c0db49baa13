"""PostgreSQL."""

from tidegate.dialects.postgresql.dialect import Postgresql

__all__ = ["Postgresql"]
