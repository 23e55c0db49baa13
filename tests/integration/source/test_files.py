"""Files of every format through a whole load, read back by PyIceberg; what changes, what is refused, what is lost."""

from __future__ import annotations

import csv
import gzip
import json
import shutil
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from support.workspace import Workspace
from tidegate.core.outcome import Outcome, Result
from tidegate.engine import pipeline
from tidegate.errors import VerifyFailed
from tidegate.registry.store import Registry
from tidegate.sources.files import Files

pytestmark = pytest.mark.spark

NAMED = {"strategy": "files", "write": "append"}
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


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    folder = tmp_path / "landing zone+1"
    folder.mkdir()
    return folder


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(folder=tmp_path)


def stream(path: str, table: str = "t", **changes) -> dict:
    source = {"path": path, **changes.pop("source", {})}
    return {"source": source, "target": f"lake.s.{table}", **NAMED, **changes}


def run(workspace: Workspace, name: str, spark, **options) -> Outcome:
    return workspace.run(name, spark=spark, **options).streams[0]


def good(workspace: Workspace, name: str, spark, **options) -> Outcome:
    outcome = run(workspace, name, spark, **options)
    assert outcome.error is None, outcome.error
    assert outcome.verified is (True if outcome.outcome is Result.LOADED else None)
    return outcome


def idle(workspace: Workspace, name: str) -> Outcome:
    """A run that must end without Spark."""
    outcome = run(workspace, name, None)
    assert (outcome.outcome, outcome.spark_started, outcome.error) == (Result.UNCHANGED, False, None)
    return outcome


def write_csv(path: Path, *rows: tuple, header=("id", "name")) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])


def loaded(workspace: Workspace, table: str, *names: str) -> list[tuple]:
    return sorted((tuple(row[name] for name in names) for row in workspace.rows(f"s.{table}")), key=str)


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
    told = {"csv": STATED, "gz": STATED, "json": STATED, "array": STATED}
    forms = {"gz": "csv", "array": "json"}
    escape = {"csv": {"options": {"escape": '"'}}, "gz": {"options": {"escape": '"'}}}
    streams = {
        name: stream(
            f"{landing.name}/{name}",
            name,
            source={"format": forms.get(name, name), "columns": told.get(name, {}), **escape.get(name, {})},
        )
        for name in ("parquet", "orc", "csv", "gz", "json", "array", "avro")
    }
    workspace.write(streams, connections={})
    for outcome in workspace.run(spark=spark).streams:
        assert (outcome.error, outcome.verified, outcome.rows_read) == (None, True, 3), outcome.stream
    for name in streams:
        wanted = [{key: row[key] for key in STATED if name != "orc" or key not in ("at", "seen")} for row in ROWS]
        assert workspace.rows(f"s.{name}") == sorted(wanted, key=lambda row: json.dumps(row, default=str)), name
        idle(workspace, name)


def test_a_folder_from_first_file_to_last(workspace, landing, spark):
    """Added, touched, overwritten, gone, forgotten: rows carry their file's name."""
    named = {"source": {"file_name": "source_file"}, "strategy": {"kind": "files", "on_delete": "remove"}}
    workspace.write({"t": stream(f"{landing.name}/**/*.csv", **named)}, connections={})
    idle(workspace, "t")
    write_csv(landing / "a.csv", (1, "one"), (2, "two"))
    (landing / "day=2025-01-01").mkdir()
    write_csv(landing / "day=2025-01-01" / "b é+%.csv", (3, "three"))
    write_csv(landing / "_hidden.csv", (9, "no"))
    write_csv(landing / "later.csv.part", (9, "no"))
    first = good(workspace, "t", spark)
    assert first.rows_inserted == 3
    assert any("later.csv.part" in note for note in first.notes)
    b = "day=2025-01-01/b é+%.csv"
    columns = ("id", "name", "day", "source_file")
    kept = [(1, "one", None, "a.csv"), (2, "two", None, "a.csv"), (3, "three", "2025-01-01", b)]
    assert loaded(workspace, "t", *columns) == kept
    (landing / "a.csv").touch()
    idle(workspace, "t")

    (landing / "a.csv").write_text("name,id\neins,1\n")  # another content, the columns in another order
    write_csv(landing / "c.csv", (4, "four"))
    second = good(workspace, "t", spark)
    assert (second.write, second.rows_inserted, second.rows_deleted) == ("replace_files", 2, 2)
    assert loaded(workspace, "t", *columns) == [(1, "eins", None, "a.csv"), kept[2], (4, "four", None, "c.csv")]

    (landing / "c.csv").unlink()
    third = good(workspace, "t", spark)
    assert (third.rows_inserted, third.rows_deleted) == (0, 1)
    assert loaded(workspace, "t", *columns) == [(1, "eins", None, "a.csv"), kept[2]]

    workspace.forget_registry()
    idle(workspace, "t")
    idle(workspace, "t")
    workspace.forget_registry()
    write_csv(landing / "d.csv", (5, "five"))
    again = good(workspace, "t", spark)
    assert (again.rows_inserted, again.rows_deleted) == (3, 2)
    assert loaded(workspace, "t", *columns) == [(1, "eins", None, "a.csv"), kept[2], (5, "five", None, "d.csv")]
    idle(workspace, "t")


def test_append_without_names_never_adds_a_row_twice(workspace, landing, spark):
    workspace.write({"t": stream(landing.name, source={"format": "csv"})}, connections={})
    write_csv(landing / "a.csv", (1, "one"))
    good(workspace, "t", spark)
    snapshots = workspace.snapshots("s.t")
    position = idle(workspace, "t").position
    write_csv(landing / "a.csv", (1, "eins"))
    for _ in range(2):
        outcome = run(workspace, "t", spark)
        assert (outcome.outcome, outcome.error.code, outcome.error.exit_code) == (Result.STOPPED, "plan", 4)
        assert "a.csv" in outcome.error.message
        assert "--full-refresh" in outcome.error.hint
    write_csv(landing / "a.csv", (1, "one"))
    assert idle(workspace, "t").position == position
    workspace.forget_registry()
    write_csv(landing / "b.csv", (2, "two"))
    assert "nobody remembers" in run(workspace, "t", spark).error.message
    assert workspace.snapshots("s.t") == snapshots
    good(workspace, "t", spark, full_refresh=True)
    assert loaded(workspace, "t", "id", "name") == [(1, "one"), (2, "two")]
    idle(workspace, "t")


def test_merge_takes_the_latest_file_of_a_key(workspace, landing, spark):
    merged = {"key": ["id"], "write": {"kind": "merge", "order_by": ["source_file"]}}
    named = {"file_name": "source_file"}
    on_delete = {"kind": "files", "on_delete": "remove"}
    workspace.write({"t": stream(f"{landing.name}/*.csv", source=named, strategy=on_delete, **merged)}, connections={})
    write_csv(landing / "1.csv", (1, "old"), (2, "two"), (3, "three"))
    write_csv(landing / "2.csv", (1, "new"))
    good(workspace, "t", spark)
    assert loaded(workspace, "t", "id", "name") == [(1, "new"), (2, "two"), (3, "three")]
    write_csv(landing / "1.csv", (2, "zwei"), (4, "four"))
    write_csv(landing / "3.csv", (1, "newest"))
    changed = good(workspace, "t", spark)
    assert changed.write == "merge_partitions"
    assert loaded(workspace, "t", "id", "name") == [(1, "newest"), (2, "zwei"), (4, "four")]
    (landing / "1.csv").unlink()
    good(workspace, "t", spark)
    assert loaded(workspace, "t", "id", "name") == [(1, "newest")]
    workspace.forget_registry()
    write_csv(landing / "4.csv", (5, "five"))
    before = good(workspace, "t", spark)
    assert before.rows_inserted == 1
    assert loaded(workspace, "t", "id", "name") == [(1, "newest"), (5, "five")]


def test_columns_that_come_go_and_grow(workspace, landing, spark):
    workspace.write(
        {
            "p": stream(f"{landing.name}/*.parquet", "p"),
            "c": stream(f"{landing.name}/*.csv", "c", source={"columns": {"code": "text"}}),
        },
        connections={},
    )
    parquet.write_table(pa.table({"id": pa.array([1], pa.int32()), "v": ["a"]}), landing / "1.parquet")
    write_csv(landing / "1.csv", (1, "007"), header=("id", "code"))
    good(workspace, "p", spark)
    good(workspace, "c", spark)
    # Wider, narrower, new, missing: all in one load, and with the columns of the loads before.
    parquet.write_table(pa.table({"id": pa.array([2**40]), "new": [1.5]}), landing / "2.parquet")
    parquet.write_table(pa.table({"id": pa.array([3], pa.int16()), "v": ["c"]}), landing / "3.parquet")
    write_csv(landing / "2.csv", ("x", 2, "08"), header=("new", "id", "code"))
    write_csv(landing / "3.csv", (), header=("id",))
    good(workspace, "p", spark)
    good(workspace, "c", spark)
    assert loaded(workspace, "p", "id", "v", "new") == [(1, "a", None), (2**40, None, 1.5), (3, "c", None)]
    assert loaded(workspace, "c", "id", "code", "new") == [(1, "007", None), (2, "08", "x")]
    # What contradicts is refused, and both sides are named.
    parquet.write_table(pa.table({"id": ["4"]}), landing / "4.parquet")
    refused = run(workspace, "p", None).error
    assert refused.code == "schema_refused"
    assert "4.parquet" in refused.message
    assert "bigint" in refused.message


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


@pytest.mark.parametrize("spares", [False, True])
def test_what_is_damaged_is_named_and_nothing_moves(workspace, landing, spark, spares):
    """Also when whole files wait beside the damaged one."""
    workspace.write({"t": stream(f"{landing.name}/*.csv*")}, connections={})
    write_csv(landing / "a.csv", (1, "one"))
    position = good(workspace, "t", spark).position
    snapshots = workspace.snapshots("s.t")
    if spares:
        write_csv(landing / "b.csv", (2, "two"))
    kinds = ("a row cut short", "gzip cut short") if spares else ("too many values", "no number", "parquet named csv")
    for kind in (*kinds, "two columns of one name"):
        damaged(landing, kind)
        error = run(workspace, "t", spark).error
        assert error.code == ("schema_refused" if kind.startswith("two") else "file_unreadable"), kind
        assert "x.csv" in error.message, kind
        assert "secret" not in error.message
        assert (workspace.snapshots("s.t"), workspace.rows("s.t")) == (snapshots, [{"id": 1, "name": "one"}]), kind
        for file in landing.glob("x.*"):
            file.unlink()
    if not spares:
        assert idle(workspace, "t").position == position
        shutil.rmtree(landing)
        gone = run(workspace, "t", None).error
        assert (gone.code, "landing" in gone.message) == ("source_refused", True)
        return
    good(workspace, "t", spark)
    assert loaded(workspace, "t", "id") == [(1,), (2,)]


def test_a_file_that_is_written_while_it_is_read_is_not_published(workspace, landing, spark, monkeypatch):
    workspace.write({"t": stream(f"{landing.name}/*.csv", source={"file_name": "source_file"})}, connections={})
    write_csv(landing / "a.csv", (1, "one"))
    read, writes = Files.read, iter([(2, "two")])

    def meanwhile(self, *arguments):
        for row in writes:
            write_csv(landing / "a.csv", (1, "one"), row)
        return read(self, *arguments)

    monkeypatch.setattr(Files, "read", meanwhile)
    outcome = good(workspace, "t", spark)  # tried again, when nobody writes any more
    assert outcome.rows_inserted == 2
    monkeypatch.undo()
    assert idle(workspace, "t").position["sequence"] == 1
    assert loaded(workspace, "t", "id", "name") == [(1, "one"), (2, "two")]


def test_a_crash_behind_the_commit_loads_no_file_twice(workspace, landing, spark, monkeypatch):
    workspace.write({"t": stream(f"{landing.name}/*.csv")}, connections={})
    write_csv(landing / "a.csv", (1, "one"))
    good(workspace, "t", spark)
    write_csv(landing / "b.csv", (2, "two"))

    def dies(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(Registry, "advance", dies)
    with pytest.raises(KeyboardInterrupt):
        run(workspace, "t", spark)
    monkeypatch.undo()
    idle(workspace, "t")
    write_csv(landing / "c.csv", (3, "three"))
    monkeypatch.setattr(pipeline, "publish", dies)
    with pytest.raises(KeyboardInterrupt):
        run(workspace, "t", spark)
    monkeypatch.undo()
    good(workspace, "t", spark)
    assert loaded(workspace, "t", "id") == [(1,), (2,), (3,)]
    idle(workspace, "t")


def test_every_other_strategy_reads_all_files_as_one_table(workspace, landing, spark):
    days = {"format": "csv", "columns": {"day": "date"}}
    by_day = {"kind": "checksum", "method": "by_date", "column": "day", "period": "day"}
    workspace.write(
        {
            "full": stream(landing.name, "full", source=days, strategy="full", write="replace"),
            "sums": stream(landing.name, "sums", source=days, strategy=by_day, write="replace"),
            "mark": stream(
                landing.name,
                "mark",
                source=days,
                strategy={"kind": "watermark", "column": "id_at", "lookback": "0s"},
                write="merge",
                key=["id"],
            ),
        },
        connections={},
    )
    header = ("id", "id_at")
    for day in (1, 2):
        (landing / f"day=2025-01-0{day}").mkdir()
        write_csv(landing / f"day=2025-01-0{day}" / "a.csv", (day, f"2025-01-0{day} 00:00:00"), header=header)
    for name in ("full", "sums", "mark"):
        good(workspace, name, spark)
    write_csv(
        landing / "day=2025-01-02" / "a.csv", (2, "2025-01-02 00:00:00"), (3, "2025-01-03 00:00:00"), header=header
    )
    assert (good(workspace, "sums", spark).rows_read, good(workspace, "mark", spark).rows_read) == (2, 1)
    with workspace.project(spark) as project:
        different = project.verify("full", level="rows").streams[0]
        assert (different.equal, different.rows_different) == (False, 1)
        assert [project.verify(name, level="rows").streams[0].equal for name in ("sums", "mark")] == [True, True]


def test_files_that_became_a_table_are_adopted_once_they_are_proven(workspace, tmp_path, spark):
    """Iceberg takes the very files over; the position comes only when the table is what they are."""
    folder = tmp_path / "history"
    folder.mkdir()
    for number in (1, 2):
        rows = pa.table({"id": pa.array([number], pa.int64()), "v": [f"v{number}"]})
        parquet.write_table(rows, folder / f"{number}.parquet")
    workspace.write({"t": stream("history", source={"format": "parquet"})}, connections={})
    (tmp_path / ".tidegate").mkdir()
    with workspace.project(spark) as project:
        lake = project.sessions.load_session()
        lake.sql("CREATE NAMESPACE lake.s")
        lake.sql("CREATE TABLE lake.s.t (id bigint, v string) USING iceberg")
        lake.sql(f"CALL lake.system.add_files(table => 's.t', source_table => '`parquet`.`{folder}`')").collect()
        assert run(workspace, "t", spark).error.code == "position_missing"
        parquet.write_table(pa.table({"id": pa.array([3], pa.int64()), "v": ["v3"]}), folder / "3.parquet")
        with pytest.raises(VerifyFailed, match="3 rows at the source and 2") as caught:
            project.state.adopt("t")
        assert "--full-refresh" in caught.value.hint
        assert run(workspace, "t", spark).error.code == "position_missing"
        (folder / "3.parquet").rename(tmp_path / "3.parquet")
        assert project.state.adopt("t").agree
    idle(workspace, "t")
    (tmp_path / "3.parquet").rename(folder / "3.parquet")
    assert good(workspace, "t", spark).rows_inserted == 1
    assert loaded(workspace, "t", "id", "v") == [(1, "v1"), (2, "v2"), (3, "v3")]
    with workspace.project(spark) as project:
        parquet.write_table(pa.table({"id": pa.array([4], pa.int64()), "v": ["next"]}), folder / "4.parquet")
        assert project.verify("t").streams[0].equal is True  # a file that is not loaded yet is not missing
