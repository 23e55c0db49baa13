"""The Iceberg format without Spark: catalogs, metadata, statements, bounds."""

from __future__ import annotations

import gzip
import json
import sqlite3
import struct
from contextlib import closing, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tidegate.core.ids import Target
from tidegate.core.plan import Mode, Prune, branch_prefix
from tidegate.core.ports.format import Layout
from tidegate.core.position import Position, property_name
from tidegate.core.schema import BIGINT, BOOLEAN, DATE, TEXT, TIMESTAMP, ChangeKind, Column, Schema, SchemaChange, Type
from tidegate.errors import CommitUnknown, ConfigError, InternalError, SchemaRefused, WriteError
from tidegate.formats.iceberg import Iceberg, ddl
from tidegate.formats.iceberg.column_bounds import may_hold
from tidegate.formats.iceberg.metadata import Metadata, Snapshot
from tidegate.formats.iceberg.staging import IcebergStaging

UID = "0123456789abcdef"
TARGET = Target(lake="lake", namespace=("shop",), table="orders")
POSITION = Position(sequence=3, load_id="a" * 32, kind="full")
SCHEMA = Schema(
    columns=(Column(name="id", type=BIGINT), Column(name="days(x)", type=TEXT), Column(name="at", type=DATE))
)


def metadata(*snapshots: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "table-uuid": "u",
        "location": "file:///w/shop/orders",
        "current-schema-id": 1,
        "schemas": [{"schema-id": 1, "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}],
        "current-snapshot-id": snapshots[-1]["snapshot-id"] if snapshots else -1,
        "snapshots": list(snapshots),
        **changes,
    }


def snapshot(number: int, parent: int | None = None, **summary: str) -> dict[str, Any]:
    return {"snapshot-id": number, "parent-snapshot-id": parent, "summary": {"total-records": "5", **summary}}


def lake_with(folder: Path, content: bytes | None, suffix: str = ".metadata.json") -> Iceberg:
    """A project whose catalog names one metadata file."""
    catalog = folder / ".tidegate" / "catalog.db"
    catalog.parent.mkdir()
    path = folder / f"0{suffix}"
    if content is not None:
        path.write_bytes(content)
    with closing(sqlite3.connect(catalog)) as connection:
        connection.execute("CREATE TABLE iceberg_tables (catalog_name, table_namespace, table_name, metadata_location)")
        connection.execute("INSERT INTO iceberg_tables VALUES ('lake', 'shop', 'orders', ?)", (f"file://{path}",))
        connection.commit()
    return Iceberg(name="lake", folder=folder)


def marked(number: int, parent: int | None = None) -> dict[str, Any]:
    return snapshot(number, parent, **{property_name(UID): POSITION.to_json()})


@pytest.mark.parametrize("packed", [False, True])
def test_state_is_read_from_the_catalog_and_one_file(tmp_path: Path, packed: bool) -> None:
    branch = f"{branch_prefix(UID)}abc"
    refs = {"main": {"snapshot-id": 3}, branch: {"snapshot-id": 3}, f"{branch_prefix('f' * 16)}x": {"snapshot-id": 3}}
    data = json.dumps(metadata(snapshot(1), marked(2, 1), snapshot(3, 2), refs=refs)).encode()
    lake = lake_with(
        tmp_path, gzip.compress(data) if packed else data, ".gz.metadata.json" if packed else ".metadata.json"
    )
    state = lake.state(TARGET, UID)
    assert (state.exists, state.snapshot, state.rows, state.branches) == (True, "3", 5, (branch,))
    assert (state.position, state.position_snapshot) == (POSITION, "2")
    assert lake.state(Target(lake="lake", namespace=("shop",), table="other"), UID).exists is False


def test_only_the_history_of_main_counts_as_far_as_it_is_kept() -> None:
    raw = metadata(snapshot(1), snapshot(3, 1), refs={"tidegate_x": {"snapshot-id": 2}})
    raw["snapshots"].append(marked(2, 1))
    assert Metadata(raw).position(UID) is None
    assert [each.id for each in Metadata(metadata(snapshot(8, 7), snapshot(9, 8))).ancestors(9)] == [9, 8]


def test_an_empty_project_has_no_tables(tmp_path: Path) -> None:
    assert Iceberg(name="lake", folder=tmp_path).state(TARGET, UID).exists is False
    assert list(tmp_path.iterdir()) == [], "asking makes nothing"


@pytest.mark.parametrize(
    ("content", "said"), [(b"{ not json", "damaged"), (b"\x1f\x8bxx", "damaged"), (None, "missing")]
)
def test_damaged_metadata_is_one_clear_error(tmp_path: Path, content: bytes | None, said: str) -> None:
    with pytest.raises(WriteError, match=f"metadata file of table lake.shop.orders .*{said}"):
        lake_with(tmp_path, content).state(TARGET, UID)


def test_a_damaged_catalog_or_position_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / ".tidegate").mkdir()
    (tmp_path / ".tidegate" / "catalog.db").write_bytes(b"no database" * 100)
    with pytest.raises(WriteError, match="catalog of lake 'lake'"):
        Iceberg(name="lake", folder=tmp_path).state(TARGET, UID)
    broken = snapshot(1, **{property_name(UID): '{"version": 99}'})
    with pytest.raises(WriteError, match="position in snapshot 1"):
        Metadata(metadata(broken)).position(UID)


def test_an_unreachable_catalog_tells_where_and_no_secret(tmp_path: Path) -> None:
    url = "postgresql://app:hunter2@127.0.0.1:1/lake"
    lake = Iceberg(name="lake", folder=tmp_path, catalog={"type": "postgresql", "uri": url})
    with pytest.raises(WriteError, match=r"127\.0\.0\.1:1/lake") as error:
        lake.state(TARGET, UID)
    assert "hunter2" not in error.value.message + error.value.hint
    conf = lake.spark_conf()
    assert conf["spark.sql.catalog.lake.uri"] == "jdbc:postgresql://127.0.0.1:1/lake"
    login = [conf[f"spark.sql.catalog.lake.jdbc.{name}"] for name in ("user", "password")]
    assert login == ["app", "hunter2"]


def test_each_catalog_in_the_words_of_spark(tmp_path: Path) -> None:
    conf = Iceberg(name="l", folder=tmp_path).spark_conf()
    assert conf["spark.sql.catalog.l.warehouse"] == f"file://{tmp_path}/warehouse"
    assert conf["spark.sql.catalog.l.uri"] == f"jdbc:sqlite:{tmp_path}/.tidegate/catalog.db?busy_timeout=10000"
    assert conf["spark.sql.catalog.l.cache-enabled"] == "false"
    rest = Iceberg(name="l", folder=tmp_path, catalog={"type": "rest", "uri": "http://x", "token": "t"}).spark_conf()
    assert (rest["spark.sql.catalog.l.type"], rest["spark.sql.catalog.l.token"]) == ("rest", "t")
    assert "spark.sql.catalog.l.warehouse" not in rest
    s3 = Iceberg(name="l", folder=tmp_path, warehouse="s3://b/w")
    assert s3.spark_conf()["spark.sql.catalog.l.io-impl"] == "org.apache.iceberg.aws.s3.S3FileIO"
    assert any("aws-bundle" in each for each in s3.jars())
    # The catalog says where tables are, and an option of the store that it is S3.
    found = Iceberg(name="l", folder=tmp_path, catalog={"type": "rest", "uri": "http://x", "s3.endpoint": "http://y"})
    assert any("aws-bundle" in each for each in found.jars())


def test_a_catalog_that_gives_credentials_is_never_asked_from_a_cache(tmp_path: Path) -> None:
    catalog = {"type": "rest", "uri": "http://x", "header.X-Iceberg-Access-Delegation": "vended-credentials"}
    lake = Iceberg(name="l", folder=tmp_path, warehouse="named", catalog=catalog)
    assert any("aws-bundle" in each for each in lake.jars())
    conf = lake.spark_conf()
    assert conf["spark.sql.catalog.l.header.X-Iceberg-Access-Delegation"] == "vended-credentials"
    assert conf["spark.sql.catalog.l.rest-table-cache.max-entries"] == "0"
    assert conf["spark.sql.catalog.l.s3.delete.batch-size"] == "1"
    chosen = Iceberg(name="l", folder=tmp_path, catalog={**catalog, "s3.delete.batch-size": "9"}).spark_conf()
    assert chosen["spark.sql.catalog.l.s3.delete.batch-size"] == "9"


@pytest.mark.parametrize(
    "catalog", [{"type": "nope"}, {"type": "rest"}, {"type": "postgresql"}, {"type": "sqlite", "x": "y"}]
)
def test_a_catalog_that_is_not_understood(tmp_path: Path, catalog: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="lake 'l'"):
        Iceberg(name="l", folder=tmp_path, catalog=catalog)


@pytest.mark.parametrize(
    ("summary", "rows"),
    [
        ({"total-records": "0"}, 0),
        ({"total-records": "9"}, 9),
        ({"total-records": "9", "total-position-deletes": "2"}, 7),
        ({"total-records": "9", "total-position-deletes": "9"}, None),
        ({"total-records": "9", "total-equality-deletes": "1"}, None),
        ({}, None),
    ],
)
def test_rows_are_told_only_where_the_summary_proves_them(summary: dict[str, str], rows: int | None) -> None:
    assert Snapshot(1, None, summary).rows == rows


def test_receipts() -> None:
    replaced = Snapshot(
        1, None, {"added-records": "5", "deleted-records": "9", "removed-position-deletes": "2"}
    ).receipt()
    assert (replaced.rows_inserted, replaced.rows_updated, replaced.rows_deleted) == (5, 0, 7)
    merged = "spark.merge-into.num-target-rows-"
    summary = {f"{merged}inserted": "1", f"{merged}updated": "2", f"{merged}deleted": "3", "added-records": "50"}
    receipt = Snapshot(1, None, summary).receipt()
    assert (receipt.rows_inserted, receipt.rows_updated, receipt.rows_deleted) == (1, 2, 3)


def test_types_come_back_and_others_are_refused_by_name() -> None:
    fields = [("a", "int"), ("b", "decimal(9, 2)"), ("c", {"type": "list", "element": "string"}), ("d", "fixed[3]")]
    raw = metadata(schemas=[{"schema-id": 1, "fields": [{"id": 1, "name": n, "type": t} for n, t in fields]}])
    found = [column.type.spark for column in Metadata(raw).schema()]
    assert found == ["int", "decimal(9,2)", "array<string>", "binary"]
    raw["schemas"][0]["fields"].append({"id": 9, "name": "bad", "type": {"type": "struct", "fields": []}})
    with pytest.raises(SchemaRefused, match="column 'bad' of the table has type struct"):
        Metadata(raw).schema()


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("at", "`at`"),
        ("days(at)", "days(`at`)"),
        ("day( at )", "days(`at`)"),
        ("days(x)", "`days(x)`"),  # a column of that name
        ("bucket(16, id)", "bucket(16, `id`)"),
        ("truncate(4,days(x))", "truncate(4, `days(x)`)"),
    ],
)
def test_partitions_are_understood_and_quoted(given: str, written: str) -> None:
    assert ddl.partitions([given], SCHEMA) == (written,)


@pytest.mark.parametrize(
    "given", ["", "nope", "days(nope)", "bucket(id)", "bucket(0, id)", "days(3, at)", "at, id) --", "f(at)"]
)
def test_partitions_that_are_not_understood_stop(given: str) -> None:
    with pytest.raises(ConfigError):
        ddl.partitions([given], SCHEMA)


def test_statements_for_a_new_table() -> None:
    layout = Layout(partition_by=("days(at)",), sort_by=("id",), format_version=3)
    text = ddl.create(TARGET, SCHEMA, layout, None)
    assert text.startswith(
        "CREATE TABLE IF NOT EXISTS `lake`.`shop`.`orders` (`id` bigint, `days(x)` string, `at` date)"
    )
    assert "PARTITIONED BY (days(`at`))" in text
    assert "'format-version' = '3'" in text
    assert "NOT NULL" not in text
    assert ddl.order(TARGET, SCHEMA, layout).endswith("WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY `id`")
    with pytest.raises(ConfigError, match="sort_by names 'nope'"):
        ddl.order(TARGET, SCHEMA, Layout(sort_by=("nope",)))


def test_bounds_of_a_key_are_kept_behind_the_hundred_columns_that_iceberg_measures() -> None:
    columns = tuple(Column(name=f"c{number}", type=BIGINT) for number in range(102))
    text = ddl.create(TARGET, Schema(columns=columns, key=("c99", "c100")), Layout(), None)
    assert text.count("write.metadata.metrics.column.") == 1
    assert "'write.metadata.metrics.column.c100' = 'truncate(16)'" in text


def test_two_partitions_are_written_without_bringing_their_rows_together() -> None:
    schema = Schema(columns=(*SCHEMA.columns, Column(name="now", type=BOOLEAN)))
    halved = "'write.distribution-mode' = 'none'"
    assert halved in ddl.create(TARGET, schema, Layout(partition_by=("now",)), None)
    for other in ((), ("id",), ("now", "id")):
        assert halved not in ddl.create(TARGET, schema, Layout(partition_by=other), None)


def test_unusual_names_never_become_a_path() -> None:
    assert ddl.location(TARGET, "file:///w") is None
    for name in ("..", "a/b", "a.b", "it's", "🐘", "~x"):
        found = ddl.location(Target(lake="lake", namespace=("shop",), table=name), "file:///w")
        assert found.startswith("file:///w/shop/~")
        assert found.count("/") == 5
    places = {
        ddl.location(Target(lake="lake", namespace=("s",), table=n), "w") for n in ("a.b", "a/b", "a-2e-b.", "a b")
    }
    assert len(places) == 4


def test_changes_of_columns() -> None:
    add = [SchemaChange(kind=ChangeKind.ADD_COLUMN, column=name, old=None, new=None) for name in ("days(x)", "at")]
    widen = SchemaChange(kind=ChangeKind.WIDEN, column="id", old="int", new="bigint")
    assert list(ddl.evolve(TARGET, [widen, *add], SCHEMA)) == [
        "ALTER TABLE `lake`.`shop`.`orders` ADD COLUMNS (`days(x)` string, `at` date)",
        "ALTER TABLE `lake`.`shop`.`orders` ALTER COLUMN `id` TYPE bigint",
    ]
    dropped = SchemaChange(kind=ChangeKind.DROP_COLUMN, column="id", old="bigint", new=None)
    with pytest.raises(InternalError):
        list(ddl.evolve(TARGET, [dropped], SCHEMA))


def file(low: bytes | None, high: bytes | None, *, rows: int = 5, nulls: int = 0) -> SimpleNamespace:
    ends = {"lower_bounds": {1: low} if low else {}, "upper_bounds": {1: high} if high else {}}
    data = SimpleNamespace(record_count=rows, value_counts={1: rows}, null_value_counts={1: nulls}, **ends)
    return SimpleNamespace(data_file=data)


def manifest(*files: Any, rows: int = 0) -> Any:
    opened: list[bool] = []

    def fetch(_io: object, *, discard_deleted: bool) -> Any:
        opened.append(discard_deleted)
        return files if discard_deleted else None

    counts = {"existing_files_count": len(files), "added_files_count": None}
    rows_of = {"existing_rows_count": rows, "added_rows_count": None}
    return SimpleNamespace(content=0, **counts, **rows_of, fetch_manifest_entry=fetch, opened=opened)


def table(*files: Any, manifests: int = 1) -> Any:
    return table_of(*[manifest(*files)] * manifests)


def table_of(*manifests: Any) -> Any:
    current = SimpleNamespace(manifests=lambda _io: [*manifests, SimpleNamespace(content=1)])
    schema = SimpleNamespace(find_field=lambda _name: SimpleNamespace(field_id=1))
    return SimpleNamespace(current_snapshot=lambda: current, schema=lambda: schema, io=None)


def held(files: Any, kind: Type, low: object, high: object) -> bool:
    return may_hold(files, Prune(column="id", type=kind, low=str(low), high=str(high)))


def test_what_no_file_can_hold_is_known_from_the_bounds_of_all_of_them() -> None:
    old, new = file(struct.pack("<i", -7), struct.pack("<i", 3)), file(struct.pack("<q", 9), struct.pack("<q", 2**40))
    both = table(old, new, file(None, None, rows=0), file(None, None, nulls=5))
    assert held(both, BIGINT, 3, 4)
    assert held(both, BIGINT, 2**40, 2**41)
    assert not held(both, BIGINT, -20, -8)
    assert not held(both, BIGINT, 4, 8), "between two files"
    days = table(file(struct.pack("<i", -1), struct.pack("<i", 0)))
    assert held(days, DATE, "1969-12-30", "1969-12-31")
    assert not held(days, DATE, "1970-01-02", "1970-01-03")
    times = table(file(struct.pack("<q", -1), struct.pack("<q", 1)))
    assert held(times, TIMESTAMP, "1969-12-31 23:59:59.999999", "1969-12-31 23:59:59.999999")
    assert not held(times, TIMESTAMP, "1970-01-01 00:00:00.000002", "1970-01-02 00:00:00.000000")


def test_what_proves_nothing() -> None:
    whole = file(struct.pack("<q", 0), struct.pack("<q", 1))
    assert held(table(whole, file(None, None)), BIGINT, 5, 6)
    assert held(table(whole, manifests=51), BIGINT, 5, 6)
    assert held(table(*[whole] * 10_001), BIGINT, 5, 6)
    assert not held(table(*[whole] * 10_000), BIGINT, 5, 6)
    assert held(table(whole), TEXT, 5, 6)
    far = table(file(struct.pack("<q", 0), struct.pack("<q", 2**62)))  # of others: the year 148,108
    assert held(far, TIMESTAMP, "2025-01-01 00:00:00.000000", "2025-01-02 00:00:00.000000")
    assert not held(table(), BIGINT, 5, 6), "a table without files holds nothing"


def test_the_search_ends_with_the_first_file_that_may_hold_a_value() -> None:
    small = manifest(file(struct.pack("<q", 0), struct.pack("<q", 1)), rows=1)
    large = manifest(file(struct.pack("<q", 5), struct.pack("<q", 6)), rows=9)
    assert held(table_of(small, large), BIGINT, 5, 6)
    assert (small.opened, large.opened) == ([], [True])


BRANCH = "tidegate_load"


@pytest.mark.parametrize("moves", [True, False], ids=["moved", "not moved"])
def test_a_load_is_published_once_the_table_shows_it_whatever_the_catalog_answers(moves: bool) -> None:
    raw = metadata(snapshot(1))
    raw["snapshots"].append(marked(2, 1))
    raw["refs"] = {BRANCH: {"snapshot-id": 2}}
    asked: list[str] = []

    def answer(statement: str) -> SimpleNamespace:
        asked.append(statement)
        if moves and "fast_forward" in statement:
            raw["current-snapshot-id"] = 2
        return SimpleNamespace(collect=list)

    write = SimpleNamespace(mode=Mode.MERGE_ON_READ)
    plan = SimpleNamespace(uid=UID, base="1", branch=BRANCH, position=POSITION, replaced=(), write=write)
    staging = IcebergStaging(
        session=SimpleNamespace(sql=answer),
        target=TARGET,
        plan=plan,
        load=lambda: Metadata(raw),
        table=lambda: None,
        warehouse=None,
    )
    with nullcontext() if moves else pytest.raises(CommitUnknown, match="that the table does not show"):
        assert staging.publish().snapshot == "2"
    assert [statement.partition(" ")[0] for statement in asked] == (["CALL", "ALTER"] if moves else ["CALL"])
