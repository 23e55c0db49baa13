"""The catalogs of a session: closed here, since Spark creates them for each session and closes none."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ICEBERG = "org.apache.iceberg.spark.SparkCatalog"


def close_catalogs(session: SparkSession) -> None:
    """Closes the connections of the session's own Iceberg catalogs; the session is of no use for them afterwards.

    A JVM that runs for days would otherwise keep two open files, or connections to a server, for each load.

    Args:
        session: a classic one, of one load.
    """
    java: Any = session  # neither is part of PySpark's typed surface
    with contextlib.suppress(Exception):  # of a JVM that has died nothing is left open
        manager = java._jsparkSession.sessionState().catalogManager()  # noqa: SLF001 - only Java has it
        made = manager.listCatalogs(java._jvm.scala.Option.empty())  # noqa: SLF001 - those that were used
        for number in range(made.size()):
            catalog = manager.catalog(made.apply(number))
            if catalog.getClass().getName() == ICEBERG:
                catalog.icebergCatalog().close()


def local_files(catalog: str) -> dict[str, str]:
    """Settings by which an Iceberg catalog writes files of this machine without a program started for each.

    Hadoop starts two, 7 ms of a small load's 600 for each file. For Iceberg's catalogs alone and kept out of Hadoop's
    cache: as the file system of all of Spark, the class in `jars.LOCAL_FILES` does not list a folder behind a link.

    Args:
        catalog: the setting that makes it one, `spark.sql.catalog.<name>`.
    """
    key = f"{catalog}.hadoop.fs.file.impl"
    return {key: "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem", f"{key}.disable.cache": "true"}
