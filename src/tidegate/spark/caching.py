"""Rows that Spark keeps, and rows that it must not take from what it keeps.

Spark's cache belongs to the whole application and finds rows by their plan. Two plans are the same if they read the
same paths, whatever the files hold by now, and the first who lets go of them does so for all (`CacheManager`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.readwriter import DataFrameReader

# Hadoop's usual file system on disk makes a name for a checksum's file, and takes what is before a colon for a scheme.
PLAIN_DISK = {"fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem", "fs.file.impl.disable.cache": "true"}


def uncached(session: SparkSession, uris: Iterable[str] = ()) -> DataFrameReader:
    """A reader of files that never gives rows which the session's user, another load or an earlier read has kept.

    Args:
        uris: the files that it will read, if the name of one on disk may have a colon.
    """
    reader = session.read.option("tidegateRead", uuid4().hex)  # no reader knows it, and no two plans have the same
    colon = any(uri.startswith("file:") and ":" in uri.removeprefix("file:") for uri in uris)
    return reader.options(**PLAIN_DISK) if colon else reader


def persisted(rows: DataFrame) -> DataFrame:
    """The rows, kept until `unpersist` is called on what is returned, and for nobody else who reads the same."""
    return rows.where(f"'{uuid4().hex}' IS NOT NULL").persist()
