"""`python -m bench.tpch [--scale N] [--refreshes N] [--docs]`: TPC-H from PostgreSQL to Iceberg, then its refreshes.

All eight tables are loaded in one cold process, the two that the refreshes change through replication slots, the others
by strategy `full`. A refresh adds an order for each 1,000 of the table with its line items, then deletes as many
(TPC-H specification 3.0.1, 2.5 to 2.7); new keys are those that its generator leaves out. After each run every table is
compared with the source by PyIceberg and DuckDB.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import psycopg

from bench import lakes, ours
from bench.rivals_page import DOCS, replaced
from bench.rounds import OUT, WrongResult
from bench.source import SETTINGS
from support.postgres import PostgresServer

GENERATOR = Path(__file__).parent.parent / ".tools" / "rivals" / "tpchgen" / "bin" / "tpchgen-cli"
MARKS = ("<!-- tpch -->\n", "<!-- /tpch -->")
MONEY = "numeric(15,2)"
TABLES: Mapping[str, tuple[str, int]] = {
    "region": ("r_regionkey integer, r_name char(25), r_comment varchar(152)", 1),
    "nation": ("n_nationkey integer, n_name char(25), n_regionkey integer, n_comment varchar(152)", 1),
    "supplier": (
        (
            "s_suppkey bigint, s_name char(25), s_address varchar(40), s_nationkey integer, s_phone char(15), "
            f"s_acctbal {MONEY}, s_comment varchar(101)"
        ),
        1,
    ),
    "customer": (
        (
            "c_custkey bigint, c_name varchar(25), c_address varchar(40), c_nationkey integer, c_phone char(15), "
            f"c_acctbal {MONEY}, c_mktsegment char(10), c_comment varchar(117)"
        ),
        1,
    ),
    "part": (
        (
            "p_partkey bigint, p_name varchar(55), p_mfgr char(25), p_brand char(10), p_type varchar(25), "
            f"p_size integer, p_container char(10), p_retailprice {MONEY}, p_comment varchar(23)"
        ),
        1,
    ),
    "partsupp": (
        f"ps_partkey bigint, ps_suppkey bigint, ps_availqty integer, ps_supplycost {MONEY}, ps_comment varchar(199)",
        2,
    ),
    "orders": (
        (
            f"o_orderkey bigint, o_custkey bigint, o_orderstatus char(1), o_totalprice {MONEY}, o_orderdate date, "
            "o_orderpriority char(15), o_clerk char(15), o_shippriority integer, o_comment varchar(79)"
        ),
        1,
    ),
    "lineitem": (
        (
            f"l_orderkey bigint, l_linenumber integer, l_partkey bigint, l_suppkey bigint, l_quantity {MONEY}, "
            f"l_extendedprice {MONEY}, l_discount {MONEY}, l_tax {MONEY}, l_returnflag char(1), l_linestatus char(1), "
            "l_shipdate date, l_commitdate date, l_receiptdate date, l_shipinstruct char(25), l_shipmode char(10), "
            "l_comment varchar(44)"
        ),
        2,
    ),
}
"""Columns of each table, of which the first ones are its key."""
CHANGED = ("orders", "lineitem")
A_REFRESH = 1_500
"""Orders that a refresh adds and deletes, at scale 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The database, and how big it is."""

    url: str
    scale: float

    def ask(self, *statements: str) -> list[tuple[Any, ...]]:
        """The rows of the last statement; all are one transaction."""
        with psycopg.connect(self.url) as session:
            for statement in statements:
                cursor = session.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def refresh(self, number: int) -> None:
        """Orders with new keys and their line items; then as many old ones are deleted."""
        orders = round(A_REFRESH * self.scale)
        chosen = f"SELECT o_orderkey FROM orders WHERE o_orderkey % 32 < 8 ORDER BY 1 OFFSET {2 * number * orders}"
        more = "o_orderkey + 8, " + ", ".join(columns("orders")[1:])
        items = "l_orderkey + 8, " + ", ".join(columns("lineitem")[1:])
        self.ask(
            f"CREATE TEMP TABLE added AS {chosen} LIMIT {orders}",
            f"INSERT INTO orders SELECT {more} FROM orders WHERE o_orderkey IN (SELECT * FROM added)",
            f"INSERT INTO lineitem SELECT {items} FROM lineitem WHERE l_orderkey IN (SELECT * FROM added)",
        )
        self.ask(
            f"CREATE TEMP TABLE deleted AS {chosen} LIMIT {orders}",
            "DELETE FROM lineitem WHERE l_orderkey IN (SELECT * FROM deleted)",
            "DELETE FROM orders WHERE o_orderkey IN (SELECT * FROM deleted)",
        )


def columns(table: str) -> list[str]:
    """Its names, in order."""
    return [each.split()[0] for each in TABLES[table][0].split(", ")]


def main(arguments: list[str] | None = None) -> int:
    """Prints a line for each run, and writes `bench/out/tpch.json`."""
    parser = argparse.ArgumentParser(prog="python -m bench.tpch", description=__doc__)
    parser.add_argument("--scale", type=float, default=1, help="scale factor (%(default)s)")
    parser.add_argument("--refreshes", type=int, default=3, help="pairs of refresh functions (%(default)s)")
    parser.add_argument("--docs", action="store_true", help="write the table of docs/benchmarks.md")
    options = parser.parse_args(arguments)
    runs = []
    with (
        tempfile.TemporaryDirectory(prefix="tidegate-tpch-") as folder,
        database(options.scale, Path(folder)) as source,
    ):
        home = ours.write(project(source), Path(folder) / "project")
        for number in range(options.refreshes + 1):
            if number:
                source.refresh(number - 1)
            runs.append(run(home, f"refresh {number}" if number else "first load"))
            must_equal(source, home)
            print(json.dumps(runs[-1]), flush=True)
    document = {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[2],
        "scale": options.scale,
        "runs": runs,
    }
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "tpch.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(table(document))
    if options.docs:
        page = DOCS / "benchmarks.md"
        when = f"Measured {document['measured_at'][:10]} on {document['cores']} cores at scale {options.scale:g}, load "
        text = f"{when}average {document['load']:.1f} at the end.\n\n{table(document)}\n"
        page.write_text(replaced(page.read_text(encoding="utf-8"), MARKS, text), encoding="utf-8")
    return 0


@contextmanager
def database(scale: float, folder: Path) -> Any:
    """A server of its own with the eight tables."""
    subprocess.run([GENERATOR, "csv", "-s", f"{scale:g}", "-o", folder / "csv"], check=True)
    server = PostgresServer.new(**SETTINGS, synchronous_commit="on")
    try:
        source = Source(url=server.create_database("tpch"), scale=scale)
        with psycopg.connect(source.url) as session:
            for name, (definition, keys) in TABLES.items():
                key = ", ".join(columns(name)[:keys])
                session.execute(f"CREATE TABLE {name} ({definition}, PRIMARY KEY ({key}))")
                file = folder / "csv" / f"{name}.csv"
                with file.open("rb") as rows:
                    header = rows.readline().decode().strip()
                    with session.cursor().copy(f"COPY {name} ({header}) FROM STDIN (FORMAT csv)") as copy:
                        while data := rows.read(1 << 20):
                            copy.write(data)
                file.unlink()
        with psycopg.connect(source.url, autocommit=True) as session:
            session.execute("VACUUM ANALYZE")
        yield source
    finally:
        server.drop()


def project(source: Source) -> dict[str, Any]:
    """As a user would write it."""
    streams = {}
    for name, (_, keys) in TABLES.items():
        key = columns(name)[:keys]
        log = {"connection": "shop", "slot": f"tpch_{name}", "table": f"public.{name}"}
        whole = {"connection": "shop", "table": name}
        streams[name] = {
            "source": log if name in CHANGED else whole,
            "target": f"lake.tpch.{name}",
            "key": key,
            "strategy": "cdc" if name in CHANGED else "full",
            "write": "merge" if name in CHANGED else "replace",
        }
    return {
        "spark": {"conf": {"spark.driver.memory": "3g"}},
        "connections": {"shop": {"url": source.url}},
        "streams": streams,
    }


def run(home: Path, job: str) -> dict[str, Any]:
    """One `tidegate run`, cold.

    Raises:
        WrongResult: a stream failed.
    """
    began, busy = time.monotonic(), os.times()
    done = subprocess.run(ours.command(home), capture_output=True, text=True, check=False)
    spent, now = time.monotonic() - began, os.times()
    if done.returncode:
        raise WrongResult(done.stdout + done.stderr)
    streams = json.loads(done.stdout)["streams"]
    return {
        "job": job,
        "seconds": spent,
        "cores": now.children_user + now.children_system - busy.children_user - busy.children_system,
        "rows": sum(each["rows_read"] or 0 for each in streams),
        "streams": {each["stream"]: sum((each["seconds"] or {}).values()) for each in streams},
    }


def must_equal(source: Source, home: Path) -> None:
    """Raises WrongResult where a table is not the source's: rows, and two sums over the md5 of every row."""
    for name in TABLES:
        # As a text a char(n) has no blanks at its end.
        text = f"md5(concat_ws('|', {', '.join(f'{column}::text' for column in columns(name))}))"
        of_source = source.ask(
            "SELECT count(*), sum(('x' || substr(h, 1, 8))::bit(32)::bigint)::text, sum(('x' || substr(h, 9, 8))"
            f"::bit(32)::bigint)::text FROM (SELECT {text} AS h FROM {name} OFFSET 0) AS hashed"
        )
        found = lakes.iceberg(home, f"tpch/{name}").scan().to_arrow_batch_reader()  # noqa: F841 - see below
        with duckdb.connect() as session:  # which finds the rows by their variable's name
            of_lake = session.sql(
                "SELECT count(*), sum(('0x' || substr(h, 1, 8))::bigint)::text, sum(('0x' || substr(h, 9, 8))"
                f"::bigint)::text FROM (SELECT {text} AS h FROM found)"
            ).fetchall()
        if of_lake != of_source:
            raise WrongResult(f"{name} holds {of_lake}, the source {of_source}")


def table(document: Mapping[str, Any]) -> str:
    """A row for each run."""
    lines = ["| job | rows read | seconds | CPU seconds | rows a second | and core |", "|---|---|---|---|---|---|"]
    for each in document["runs"]:
        speed = each["rows"] / each["seconds"]
        lines.append(
            f"| {each['job']} | {each['rows']:,} | {each['seconds']:.1f} | {each['cores']:.1f} | {speed:,.0f} | "
            f"{speed / document['cores']:,.0f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
