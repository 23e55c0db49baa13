"""What a lake table holds, by readers that share nothing with what wrote it: delta-rs, PyIceberg and DuckDB."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from pyiceberg.table import StaticTable

from bench.source import COLUMNS

Sums = tuple[int, ...]

# The same text of every row by PostgreSQL and by DuckDB. Rivals choose wider decimals and other kinds of timestamps.
OF_POSTGRES = """
SELECT count(*), sum(('x' || substr(h, 1, 8))::bit(32)::bigint), sum(('x' || substr(h, 9, 8))::bit(32)::bigint)
FROM (SELECT md5(concat_ws('|', id, customer_id, status, amount, quantity, paid::int, country, coalesce(note, '~'),
  (extract(epoch FROM created_at) * 1000000)::bigint, (extract(epoch FROM updated_at) * 1000000)::bigint)) AS h
  FROM orders OFFSET 0) AS hashed
"""
OF_DUCKDB = """
SELECT count(*), sum(('0x' || substr(h, 1, 8))::bigint), sum(('0x' || substr(h, 9, 8))::bigint)
FROM (SELECT md5(concat_ws('|', id, customer_id, status, amount::decimal(12,2), quantity, paid::int, country,
  coalesce(note, '~'), epoch_us(created_at), epoch_us(updated_at))) AS h FROM found)
"""


def sums(table_format: str, folder: Path) -> Sums:
    """The rows of the one table `orders` below the folder as three numbers."""
    found = _delta(folder) if table_format == "delta" else _iceberg(folder)  # noqa: F841 - DuckDB finds it by name
    with duckdb.connect() as session:
        (row,) = session.sql(OF_DUCKDB).fetchall()
    return tuple(int(value) for value in row)


def _delta(folder: Path) -> pa.RecordBatchReader:
    (log,) = folder.rglob("orders/_delta_log")
    table = DeltaTable(str(log.parent))
    asked = QueryBuilder().register("t", table).execute(f"SELECT {', '.join(COLUMNS)} FROM t")
    return pa.RecordBatchReader.from_stream(asked)


def _iceberg(folder: Path) -> pa.RecordBatchReader:
    return iceberg(folder, "orders").scan(selected_fields=COLUMNS).to_arrow_batch_reader()


def iceberg(folder: Path, table: str) -> StaticTable:
    """The newest state of the one Iceberg table of that name below the folder."""
    files = folder.rglob(f"{table}/metadata/*.metadata.json")
    return StaticTable.from_metadata(str(max(files, key=lambda file: (file.stat().st_mtime_ns, file.name))))
