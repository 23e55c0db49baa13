"""Plain PySpark in a process of its own: `python -m bench.cold load|new URL ROWS FOLDER`."""

from __future__ import annotations

import sys
from pathlib import Path

from bench import plain
from bench.source import Orders


def main(what: str, url: str, rows: str, folder: str) -> None:
    """`load` fills the table, `new` prints how many rows are newer than the newest one in it."""
    orders = Orders(url=url, rows=int(rows))
    spark = plain.session(Path(folder))
    if what == "load":
        plain.reload(spark, orders, "plain.bench.orders", 4)
    else:
        # Iceberg answers the maximum from its metadata, PostgreSQL the rest from its index.
        newest = spark.sql("SELECT date_format(max(updated_at), 'yyyy-MM-dd HH:mm:ss.SSSSSS') FROM plain.bench.orders")
        since = newest.collect()[0][0]
        print(plain.read(spark, orders, 1, f"updated_at > timestamptz '{since}+00'").count())
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
