"""Text that reads a Delta table in other engines, to copy and run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tidegate.core.ids import Target
from tidegate.core.table_facts import Snippets
from tidegate.formats.delta import ddl
from tidegate.formats.shared.snippets import trino
from tidegate.storage import local_path


def snippets(target: Target, location: str, spark_conf: Mapping[str, str], jars: Sequence[str]) -> Snippets:
    """By engine; for readers outside of Spark through queries of delta-rs, which apply deletion vectors and mappings.

    pandas gets the table's own types: it takes no list of the string views that a query answers with.
    """
    name = "loaded"  # a name that every engine takes as it is
    opened = (
        "from deltalake import DeltaTable, QueryBuilder\n\n"
        f'table = QueryBuilder().register("{name}", DeltaTable({_place(location)!r}))\n'
        f'rows = table.execute("SELECT * FROM {name}").read_all()'
    )
    return {
        "duckdb": f"import duckdb\nimport pyarrow\n{opened}\n{name} = pyarrow.table(rows)\n"
        f'print(duckdb.sql("SELECT * FROM {name} LIMIT 10"))',
        "delta-rs": opened,
        "polars": f"import polars\nimport pyarrow\n{opened}\nrows = polars.from_arrow(pyarrow.table(rows))",
        "pandas": f"import pyarrow\n{opened}\n"
        f"schema = pyarrow.schema(DeltaTable({_place(location)!r}).schema().to_arrow())\n"
        "rows = pyarrow.table(rows).select(schema.names).cast(schema).to_pandas()",
        "spark": _spark(location, spark_conf, jars),
        "trino": trino(target, location),
    }


def _place(location: str) -> str:
    path = local_path(location)
    return str(path) if path is not None else re.sub(r"^s3a://", "s3://", location)


def _spark(location: str, conf: Mapping[str, str], jars: Sequence[str]) -> str:
    settings = {"spark.jars.packages": ",".join(jars), **conf}
    configured = "".join(f"\n    .config({key!r}, {value!r})" for key, value in settings.items())
    return (
        "from pyspark.sql import SparkSession\n\n"
        f"spark = (\n    SparkSession.builder{configured}\n    .getOrCreate()\n)\n"
        f"rows = spark.sql({'SELECT * FROM ' + ddl.by_path(location)!r})"
    )
