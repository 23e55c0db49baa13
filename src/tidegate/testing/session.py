"""A small Spark for tests: one core, no UI, quick to start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.core.ports.format import Format
from tidegate.spark.session import Sessions
from tidegate.testing.project import local_iceberg

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONF = {
    # What the second compiler makes of a load of ten rows takes more time than it saves.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.ui.enabled": "false",
}


@contextmanager
def spark_session(*lakes: Format) -> Iterator[SparkSession]:
    """A session for all tests of a run, as a pytest fixture of scope `session` gives it; it ends with the block.

    A process that runs Spark already gives that one, which stays.

    Args:
        lakes: whose tables it knows; local Iceberg tables by default. `tidegate doctor --fetch` fetches their jars.

    Raises:
        EnvironmentMissing: Java is missing, or Spark does not start.
    """
    known = lakes or (local_iceberg(Path()),)
    jars = [jar for lake in known for jar in lake.jars()]
    with Sessions(master="local[1]", conf=CONF, lakes=[lake.spark_conf() for lake in known], jars=jars) as sessions:
        yield sessions.load_session()
