"""Text that reads an Iceberg table in other engines, to copy and run."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.core.ids import Target
from tidegate.core.table_facts import Snippets
from tidegate.formats.iceberg.catalog import Catalog
from tidegate.formats.shared.snippets import options, python_name, trino
from tidegate.spark import sql


def snippets(target: Target, catalog: Catalog, location: str | None, spark_conf: Mapping[str, str]) -> Snippets:
    """By engine. They hold the options of the catalog, a password among them as it is: mask it before it is shown.

    Args:
        location: where the table's files are, for Trino; None where its catalog is to know the table.
    """
    opened = _opened(target, catalog)
    name = python_name(target.table)
    select = f'print(duckdb.sql("SELECT * FROM {name} LIMIT 10"))'
    return {
        "duckdb": f"import duckdb\n{opened}\n{name} = table.scan().to_arrow()\n{select}",
        "pyiceberg": f"{opened}\nrows = table.scan().to_arrow()",
        "polars": f"import polars\n{opened}\nrows = polars.from_arrow(table.scan().to_arrow())",
        "pandas": f"{opened}\nrows = table.scan().to_pandas()",
        "spark": _spark(target, catalog, spark_conf),
        "trino": trino(target, location if catalog.in_tables else None),
    }


def _opened(target: Target, catalog: Catalog) -> str:
    names = ", ".join(repr(part) for part in (*target.namespace, target.table))
    return (
        "from pyiceberg.catalog import load_catalog\n\n"
        f"catalog = load_catalog({catalog.name!r}, **{options(catalog.pyiceberg())})\n"
        f"table = catalog.load_table(({names}))"
    )


def _spark(target: Target, catalog: Catalog, conf: Mapping[str, str]) -> str:
    settings = {"spark.jars.packages": ",".join(catalog.jars()), **conf}
    configured = "".join(f"\n    .config({key!r}, {value!r})" for key, value in settings.items())
    return (
        "from pyspark.sql import SparkSession\n\n"
        f"spark = (\n    SparkSession.builder{configured}\n    .getOrCreate()\n)\n"
        f"rows = spark.sql({'SELECT * FROM ' + sql.table(target)!r})"
    )
