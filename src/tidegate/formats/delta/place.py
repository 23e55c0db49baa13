"""Clears the place of a new table of the empty log that a first load leaves if it is killed before its first commit.

Delta takes any folder that is not empty for a table, so that no load would ever make one there.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tidegate.spark.remote import is_connect
from tidegate.storage import local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG = "_delta_log"


def clear(session: SparkSession, location: str) -> None:
    """Removes the log's folder and the folders in it, unless a file lies in one of them.

    Only empty folders are removed, one at a time, so that the log of another process that makes the table just now
    stays. Object stores are reached through Spark's JVM; a Spark Connect session has none here, and leaves them.
    """
    path = local_path(location)
    if path is None:
        if not is_connect(session):
            _clear_store(session, f"{location}/{LOG}")
        return
    log = path / LOG
    with suppress(OSError):
        for each in (*log.iterdir(), log):
            each.rmdir()


def _clear_store(session: SparkSession, log: str) -> None:
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # noqa: PLC0415 - PySpark's own

    java: Any = session._jvm  # noqa: SLF001 - Hadoop's file systems have no other door
    at = java.org.apache.hadoop.fs.Path(log)
    with suppress(Py4JJavaError):
        files = at.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())  # noqa: SLF001
        for folder in (*(each.getPath() for each in files.listStatus(at)), at):
            files.delete(folder, False)  # noqa: FBT003 - Java takes no names; False spares a folder with files
