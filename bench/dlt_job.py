"""One run of dlt, in an environment that has it: `python dlt_job.py first|run|sums delta|iceberg URL FOLDER`."""

from __future__ import annotations

import sys
from decimal import Decimal

import dlt
import pyarrow as pa
from dlt.common.libs.deltalake import get_delta_tables
from dlt.common.libs.pyiceberg import get_iceberg_tables
from dlt.sources.sql_database import sql_table


def main(what: str, table_format: str, url: str, folder: str) -> None:
    """`first` replaces the table, `run` merges what is newer, `sums` prints the rows and the sum of `amount`."""
    pipeline = dlt.pipeline(
        pipeline_name=f"bench_{table_format}",
        pipelines_dir=f"{folder}/pipelines",
        destination=dlt.destinations.filesystem(bucket_url=f"file://{folder}/lake"),
        dataset_name="bench",
    )
    if what == "sums":
        found = _amounts(pipeline, table_format)
        print(found.num_rows, sum((value.as_py() for value in found["amount"]), Decimal(0)))
        return
    orders = sql_table(
        credentials=url, table="orders", backend="pyarrow", incremental=dlt.sources.incremental("updated_at")
    )
    merge = {"disposition": "merge", "strategy": "upsert"}
    orders.apply_hints(primary_key="id", write_disposition="replace" if what == "first" else merge)
    print(pipeline.run(orders, table_format=table_format))


def _amounts(pipeline: dlt.Pipeline, table_format: str) -> pa.Table:
    """The column, by the library of the format."""
    if table_format == "delta":
        return get_delta_tables(pipeline, "orders")["orders"].to_pyarrow_table(columns=["amount"])
    return get_iceberg_tables(pipeline, "orders")["orders"].scan(selected_fields=("amount",)).to_arrow()


if __name__ == "__main__":
    main(*sys.argv[1:])
