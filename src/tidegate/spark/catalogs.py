"""Closes what the catalogs of a session hold: Spark makes them anew for each session, and never closes one."""

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
