"""One run of dlt, in an environment that has it: `python dlt_job.py first|run delta|iceberg URL FOLDER`."""

from __future__ import annotations

import sys

import dlt
from dlt.sources.sql_database import sql_table


def main(what: str, table_format: str, url: str, folder: str) -> None:
    """`first` replaces the table, `run` merges what is newer."""
    pipeline = dlt.pipeline(
        pipeline_name=f"bench_{table_format}",
        pipelines_dir=f"{folder}/pipelines",
        destination=dlt.destinations.filesystem(bucket_url=f"file://{folder}/lake"),
        dataset_name="bench",
    )
    orders = sql_table(
        credentials=url, table="orders", backend="pyarrow", incremental=dlt.sources.incremental("updated_at")
    )
    merge = {"disposition": "merge", "strategy": "upsert"}
    orders.apply_hints(primary_key="id", write_disposition="replace" if what == "first" else merge)
    print(pipeline.run(orders, table_format=table_format))


if __name__ == "__main__":
    main(*sys.argv[1:])
