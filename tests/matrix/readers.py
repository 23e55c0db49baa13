"""Readers of tables that share no code with the engine: PyIceberg, delta-rs, and DuckDB over the files they name."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from pyiceberg.catalog.sql import SqlCatalog

Rows = list[dict[str, Any]]


def plain(rows: Iterable[dict[str, Any]]) -> Rows:
    """Times without a zone, in UTC, as the model has them."""

    def value(found: Any) -> Any:
        if isinstance(found, datetime) and found.tzinfo is not None:
            return found.astimezone(UTC).replace(tzinfo=None)
        return found

    return [{name: value(found) for name, found in row.items()} for row in rows]


def iceberg(folder: Path, table: str) -> tuple[Rows, list[str] | None]:
    """What PyIceberg reads of `lake.s.<table>`, and its data files where no delete file stands beside them."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder / '.tidegate' / 'catalog.db'}")
    if not catalog.table_exists(("s", table)):
        return [], []
    scan = catalog.load_table(("s", table)).scan()
    rows = plain(scan.to_arrow().to_pylist())
    tasks = list(scan.plan_files())
    deletes = any(task.delete_files for task in tasks)
    return rows, None if deletes else [task.file.file_path.removeprefix("file:") for task in tasks]


def delta(folder: Path, table: str) -> tuple[Rows, list[str] | None]:
    """What delta-rs reads, and its data files where they hold every column and no deleted row."""
    place = folder / "warehouse" / "s" / table
    if not (place / "_delta_log").exists():
        return [], []
    found = DeltaTable(str(place))
    rows = plain(pa.table(QueryBuilder().register("t", found).execute("SELECT * FROM t").read_all()).to_pylist())
    held = sum(pa.table(found.get_add_actions(flatten=True))["num_records"].to_pylist())
    apart = bool(found.metadata().partition_columns)  # their values stand in no file
    return rows, None if held != len(rows) or apart else list(found.file_uris())


def duck(files: list[str]) -> Rows:
    """What DuckDB reads of Parquet files."""
    if not files:
        return []
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    found = connection.sql(
        "SELECT * FROM read_parquet($1, union_by_name = true, hive_partitioning = false)", params=[files]
    )
    return plain(found.to_arrow_table().to_pylist())


READERS = {"iceberg": iceberg, "delta": delta}
