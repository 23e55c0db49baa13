"""Rows that Spark keeps, and rows that it must not take from what it keeps.

Spark's cache belongs to the whole application and finds rows by their plan. Two plans are the same if they read the
same paths, whatever the files hold by now, and the first who lets go of them does so for all (`CacheManager`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.readwriter import DataFrameReader


def uncached(session: SparkSession) -> DataFrameReader:
    """A reader of files that never gives rows which the session's user, another load or an earlier read has kept."""
    return session.read.option("tidegateRead", uuid4().hex)  # no reader knows it, and no two plans have the same


def persisted(rows: DataFrame) -> DataFrame:
    """The rows, kept until `unpersist` is called on what is returned, and for nobody else who reads the same."""
    return rows.where(f"'{uuid4().hex}' IS NOT NULL").persist()
