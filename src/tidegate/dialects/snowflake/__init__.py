"""Snowflake as a source."""

from tidegate.dialects.snowflake.dialect import Snowflake

__all__ = ["Snowflake"]
