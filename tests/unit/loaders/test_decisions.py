"""What the loaders decide without Spark."""

import json
from datetime import timedelta

import pytest

from tidegate.core import schema as types
from tidegate.core.position import Position, property_name
from tidegate.errors import ColumnMissing, ConfigError, PositionMissing, WriteError
from tidegate.formats.delta.log import Commit
from tidegate.formats.shared.statements import merge
from tidegate.loaders._cursor import NUMBERS, TIMES, Cursor
from tidegate.loaders._delta import History
from tidegate.loaders._manifest import Entry, replay
from tidegate.loaders._places import Place, is_name, planned, refuse_relative, short_name
from tidegate.loaders._watermarks import escaped

UID = "0123456789abcdef"


def test_a_cursor_keeps_microseconds_and_no_session_moves_it():
    zoned = Cursor(column="at", type=types.TIMESTAMPTZ)
    assert zoned.low("2025-03-09 02:30:00.000001", timedelta(microseconds=1)) == "2025-03-09 02:30:00.000000"
    assert zoned.literal("2025-03-09 02:30:00.000001") == "TIMESTAMP '2025-03-09 02:30:00.000001+00:00'"
    local = Cursor(column="at", type=types.TIMESTAMP)
    assert local.literal("2025-03-09 02:30:00.000001") == "TIMESTAMP_NTZ '2025-03-09 02:30:00.000001'"
    assert "session" not in zoned.canonical("x")


@pytest.mark.parametrize("where", ["lake/orders", "./orders", "orders"])
def test_a_relative_path_is_no_place_of_a_delta_table(where):
    with pytest.raises(ConfigError, match=f"{where} is a relative path"):
        refuse_relative(Place(where=where, format="delta"))
    assert refuse_relative(Place(where=where, format="parquet")).where == where


@pytest.mark.parametrize("where", ["/lake/orders", "s3a://bucket/orders", "dbfs:/orders"])
def test_a_whole_path_or_a_name_is(where):
    assert refuse_relative(Place(where=where, format="delta")).where == where
    assert refuse_relative(Place(where="shop.orders", format="delta", table=True)).table


@pytest.mark.parametrize(
    ("kind", "watermark", "lookback", "low"),
    [
        (types.TIMESTAMP, None, timedelta(hours=1), None),
        (types.TIMESTAMP, "2025-01-01 00:30:00.000000", None, "2025-01-01 00:30:00.000000"),
        (types.TIMESTAMP, "2025-01-01 00:30:00.000000", timedelta(hours=1), "2024-12-31 23:30:00.000000"),
        (types.TIMESTAMP, "0001-01-01 00:00:00.000000", timedelta(hours=1), None),
        (types.DATE, "2025-01-01", timedelta(hours=1), "2024-12-31"),
        (types.DATE, "2025-01-01", timedelta(days=1), "2024-12-31"),
        (types.BIGINT, "-5", 10, "-15"),
        (types.decimal(38, 0), "9" * 38, 1, "9" * 37 + "8"),
    ],
)
def test_a_lookback_reaches_back_and_the_watermark_itself_is_looked_at(kind, watermark, lookback, low):
    cursor = Cursor(column="c", type=kind)
    assert cursor.low(watermark, lookback) == low
    if low is not None:
        assert cursor.at_least(low) == f"`c` >= {cursor.literal(low)}"


@pytest.mark.parametrize(
    ("kind", "lookback"),
    [
        (types.BIGINT, timedelta(hours=1)),
        (types.TIMESTAMP, 5),
        (types.TEXT, timedelta(hours=1)),
        (types.BIGINT, -1),
        (types.DATE, timedelta(days=-1)),
    ],
)
def test_a_lookback_of_the_wrong_sort_is_refused(kind, lookback):
    with pytest.raises(ConfigError, match="lookback"):
        Cursor(column="c", type=kind).low("1", lookback)


def test_the_later_watermark_is_the_greater_value_not_the_longer_text():
    assert Cursor(column="c", type=types.BIGINT).latest("9", None, "10", "-11") == "10"
    assert Cursor(column="c", type=types.TIMESTAMP).latest(None, None) is None
    assert Cursor(column="c", type=types.DATE).latest("2025-02-01", "2025-01-31") == "2025-02-01"


def test_a_cursor_is_a_column_with_an_order():
    fields = {"at": "timestamp_ntz", "id": "bigint", "big": "decimal(20,0)", "part": "decimal(20,2)", "x": "array<int>"}
    assert Cursor.of("at", fields, TIMES).type == types.TIMESTAMP
    assert Cursor.of("big", fields, NUMBERS).type == types.decimal(20, 0)
    for column, kinds in (("at", NUMBERS), ("id", TIMES), ("part", NUMBERS), ("x", TIMES)):
        with pytest.raises(ConfigError, match="cannot be a cursor"):
            Cursor.of(column, fields, kinds)
    with pytest.raises(ColumnMissing, match="'ID' is not in the source, which has at, id"):
        Cursor.of("ID", fields, NUMBERS)


def test_a_watermark_is_read_as_the_type_that_it_was_written_in():
    zoned, number = Cursor(column="at", type=types.TIMESTAMPTZ), Cursor(column="id", type=types.decimal(20, 0))
    for known in (None, "timestamp"):
        zoned.need_type(known)
    number.need_type("int")
    for known in ("timestamp_ntz", "string", "date"):
        with pytest.raises(ConfigError, match=f"its watermark was written as {known}"):
            zoned.need_type(known)


def entry(sequence, mark):
    return Entry(sequence=sequence, mark=mark, folders=(mark,), format="csv", schema="id bigint", positions={UID: "{}"})


def test_only_the_first_entry_of_a_number_counts():
    # b and d started from a state that somebody else had left already; e skips one.
    log = [entry(1, "a"), entry(1, "b"), entry(2, "c"), entry(2, "d"), entry(4, "e"), entry(3, "f")]
    assert [each.mark for each in replay(log)] == ["a", "c", "f"]
    assert Entry.from_json(log[0].to_json()) == log[0]
    with pytest.raises(WriteError, match="cannot be read"):
        Entry.from_json(log[0].to_json()[:-5])


def commit(at, sequence=None, operation="WRITE", uid=UID, **parameters):
    metadata = None
    if sequence is not None:
        position = Position(sequence=sequence, load_id=f"load{sequence}", kind="timestamp")
        metadata = json.dumps({property_name(uid): position.to_dict()})
    return Commit(
        at, ({"commitInfo": {"operation": operation, "operationParameters": parameters, "userMetadata": metadata}},)
    )


def found(*history):
    position = History.of(history).position(UID)
    return position and (position.sequence, position.load_id)


def test_a_delta_tables_position_is_the_newest_of_its_stream():
    assert found() is None
    assert found(commit(3), commit(2, 2), commit(1, 1), commit(0)) == (2, "load2")
    assert found(commit(1, 7, uid="somebody else"), commit(0)) is None


def test_a_position_that_cannot_be_read_is_never_passed_over_for_an_older_one():
    newer = json.dumps({property_name(UID): {"version": 2}})
    damaged = Commit(2, ({"commitInfo": {"operation": "WRITE", "operationParameters": {}, "userMetadata": newer}},))
    with pytest.raises(WriteError, match="the position in version 2 of the table cannot be read"):
        found(damaged, commit(1, 1), commit(0))


def test_a_restored_delta_table_stands_where_it_was_and_never_counts_backwards():
    history = (commit(4, operation="RESTORE", version="1"), commit(3, 3), commit(2, 2), commit(1, 1), commit(0))
    assert found(*history) == (3, "load1")
    assert found(commit(5, 4), *history) == (4, "load4")
    assert found(commit(4, operation="RESTORE", version="0"), *history[1:]) == (3, "")
    with pytest.raises(PositionMissing, match="restored to a timestamp"):
        found(commit(4, operation="RESTORE", version=None), *history[1:])


@pytest.mark.parametrize(
    ("operation", "asked"),
    [
        ("TRUNCATE", {}),
        ("DELETE", {"predicate": '["true"]'}),
        ("CREATE OR REPLACE TABLE AS SELECT", {}),
        ("REPLACE TABLE", {}),
        ("CLONE", {}),
        ("WRITE", {"mode": "Overwrite", "partitionBy": "[]"}),
    ],
)
def test_a_delta_table_that_others_emptied_or_replaced_has_no_position_of_before(operation, asked):
    history = (commit(2, operation=operation, **asked), commit(1, 1), commit(0))
    assert found(commit(3), *history) == (1, "")
    assert found(commit(4, 2), commit(3), *history) == (2, "load2")
    # Back to before that.
    assert found(commit(3, operation="RESTORE", version="1"), *history) == (1, "load1")


@pytest.mark.parametrize(
    ("operation", "asked"),
    [
        ("DELETE", {"predicate": '["(id = 1)"]'}),
        ("REPLACE COLUMNS", {}),
        ("WRITE", {"mode": "Append"}),
        ("WRITE", {"mode": "Overwrite", "predicate": "(id = 1)"}),
        ("WRITE", {"mode": "Overwrite", "isDynamicPartitionOverwrite": "true"}),
    ],
)
def test_a_delta_table_of_which_a_part_was_replaced_keeps_its_position(operation, asked):
    assert found(commit(2, operation=operation, **asked), commit(1, 1), commit(0)) == (1, "load1")


def test_a_load_that_overwrites_says_its_own_position():
    assert found(commit(2, 2, mode="Overwrite"), commit(1, 1), commit(0)) == (2, "load2")


def test_names_paths_and_what_a_new_target_becomes():
    assert is_name("lake.shop.`odd/name`") is False
    assert is_name("lake..orders") is False
    assert short_name("dbfs:/mnt/data/orders/") == "orders"
    assert [planned(where, None).format for where in ("/a/b", "out.csv", "out.json.gz")] == ["parquet", "csv", "json"]
    assert planned("lake.shop.orders", None).table
    assert planned("orders", None).table is False
    assert planned("s3a://b/orders", "delta").sql == "delta.`s3a://b/orders`"
    assert planned("lake.shop.`ord``ers`", "iceberg").sql == "`lake`.`shop`.`ord``ers`"


def test_names_are_quoted_and_folders_escaped():
    assert escaped("a/b=c%d e") == "a%2Fb%3Dc%25d%20e"
    text = merge("t1", "v", columns=["i`d", "x"], key=["i`d"], delete_if="gone")
    assert "t.`i``d` = s.`i``d`" in text
    assert text.startswith("MERGE INTO t1 t USING v s ON ")
    assert "WHEN MATCHED AND s.`gone` THEN DELETE WHEN MATCHED THEN UPDATE SET t.`x` = s.`x`" in text
    assert "UPDATE" not in merge("t1", "v", columns=["id"], key=["id"], delete_if="gone")
