"""Files of every format through a whole load, read back by PyIceberg; schemas that drift, files that are damaged."""

from __future__ import annotations

import gzip
import json
import shutil
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from integration.files.landing import good, idle, loaded, run, stream, write_csv

pytestmark = pytest.mark.spark

ROWS = [
    {
        "id": 1,
        "amount": Decimal("12.3450"),
        "paid": True,
        "day": date(2025, 1, 31),
        "at": datetime.fromisoformat("2025-01-31 12:00:00.123456"),
        "seen": datetime(2025, 1, 31, 12, 0, 0, 1, tzinfo=UTC),
        "name": 'a "quoted", line\nbreak é|~',
    },
    {"id": 2**40, "amount": None, "paid": None, "day": None, "at": None, "seen": None, "name": None},
    {
        "id": -3,
        "amount": Decimal("-0.0001"),
        "paid": False,
        "day": date(1583, 1, 1),  # pyarrow writes ORC without saying which calendar it counts older days by
        "at": datetime.fromisoformat("9999-12-31 23:59:59.999999"),
        "seen": datetime(1970, 1, 1, tzinfo=UTC),
        "name": "",
    },
]
TYPED = pa.schema(
    [
        ("id", pa.int64()),
        ("amount", pa.decimal128(12, 4)),
        ("paid", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
        ("seen", pa.timestamp("us", "UTC")),
        ("name", pa.string()),
    ]
)
STATED = {
    "id": "bigint",
    "amount": "decimal(12,4)",
    "paid": "boolean",
    "day": "date",
    "at": "timestamp",
    "seen": "timestamptz",
    "name": "text",
}


def texts(row: dict) -> dict:
    """A row as CSV and JSON hold it."""
    made = {name: value if value is None else str(value) for name, value in row.items()}
    return {**made, "paid": None if row["paid"] is None else str(row["paid"]).lower()}


def test_every_format_arrives_exactly(workspace, landing, spark):
    table = pa.Table.from_pylist(ROWS, schema=TYPED)
    for name in ("parquet", "orc", "csv", "gz", "json", "array", "avro"):
        (landing / name).mkdir()
    parquet.write_table(table.slice(0, 2), landing / "parquet" / "1.parquet")
    parquet.write_table(table.slice(2), landing / "parquet" / "2.parquet")
    orc.write_table(table.drop_columns(["at", "seen"]), landing / "orc" / "1.orc")
    spark.createDataFrame(
        [tuple(row.values()) for row in ROWS],
        "id bigint, amount decimal(12,4), paid boolean, day date, at timestamp_ntz, seen timestamp, name string",
    ).coalesce(1).write.format("avro").mode("overwrite").save(str(landing / "avro"))
    for folder, opened in (("csv", open), ("gz", gzip.open)):
        with opened(landing / folder / f"1.csv{'.gz' if folder == 'gz' else ''}", "wt", encoding="utf-8") as file:
            # A text that is empty is quoted; NULL is nothing.
            file.write(",".join(STATED) + "\n")
            for row in map(texts, ROWS):
                quoted = ('"' + value.replace('"', '""') + '"' if value is not None else "" for value in row.values())
                file.write(",".join(quoted) + "\n")
    lines = [json.dumps(texts(row) | {"id": row["id"], "paid": row["paid"]}) for row in ROWS]
    (landing / "json" / "1.jsonl").write_text("\n".join(lines[:2]) + "\n", encoding="utf-8")
    (landing / "json" / "2.json").write_text(lines[2], encoding="utf-8")
    with gzip.open(landing / "array" / "1.json.gz", "wt", encoding="utf-8") as file:
        file.write("[" + ",\n".join(lines) + "]")
    quoted = {"format": "csv", "columns": STATED, "options": {"escape": '"'}}
    sources = {name: {"format": name} for name in ("parquet", "orc", "avro")} | {"csv": quoted, "gz": quoted}
    sources |= {name: {"format": "json", "columns": STATED} for name in ("json", "array")}
    streams = {name: stream(f"{landing.name}/{name}", name, source=source) for name, source in sources.items()}
    workspace.write(streams)
    for outcome in workspace.run(spark=spark).streams:
        assert (outcome.error, outcome.verified, outcome.rows_read) == (None, True, 3), outcome.stream
    for name in streams:
        wanted = [{key: row[key] for key in STATED if name != "orc" or key not in ("at", "seen")} for row in ROWS]
        assert workspace.rows(f"s.{name}") == sorted(wanted, key=lambda row: json.dumps(row, default=str)), name
        idle(workspace, name)


def damaged(landing: Path, kind: str) -> None:
    """A file that no load may take."""
    match kind:
        case "a row cut short":
            (landing / "x.csv").write_text("id,name\n8,eight\n9")
        case "too many values":
            (landing / "x.csv").write_text("id,name\n9,nine,more\n")
        case "no number":
            (landing / "x.csv").write_text("id,name\nnine,secret\n")
        case "gzip cut short":
            whole = gzip.compress(b"id,name\n" + b"".join(b"%d,%d\n" % (n, n * n * n) for n in range(20_000)))
            (landing / "x.csv.gz").write_bytes(whole[:-100])
        case "parquet named csv":
            parquet.write_table(pa.table({"id": [1], "name": ["a"]}), landing / "x.csv")
        case "two columns of one name":
            (landing / "x.csv").write_text("id,id\n1,2\n")


def test_what_is_damaged_is_named_and_nothing_moves(workspace, landing, spark):
    """Also when whole files wait beside the damaged one."""
    workspace.write({"t": stream(f"{landing.name}/*.csv*")})
    write_csv(landing / "a.csv", (1, "one"))
    position = good(workspace, "t", spark).position
    snapshots = workspace.snapshots("s.t")

    def refused(*kinds):
        for kind in kinds:
            damaged(landing, kind)
            error = run(workspace, "t", spark).error
            assert error.code == ("schema_refused" if kind.startswith("two") else "file_unreadable"), kind
            assert "x.csv" in error.message, kind
            assert "secret" not in error.message
            assert (workspace.snapshots("s.t"), workspace.rows("s.t")) == (snapshots, [{"id": 1, "name": "one"}]), kind
            for file in landing.glob("x.*"):
                file.unlink()

    refused("too many values", "no number", "parquet named csv", "two columns of one name")
    assert idle(workspace, "t").position == position
    write_csv(landing / "b.csv", (2, "two"))
    refused("a row cut short", "gzip cut short")
    good(workspace, "t", spark)
    assert loaded(workspace, "t", "id") == [(1,), (2,)]
    shutil.rmtree(landing)
    gone = run(workspace, "t", None).error
    assert (gone.code, "landing" in gone.message) == ("source_refused", True)
