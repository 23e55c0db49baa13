"""Parquet as Arrow, pandas and DuckDB write it: what fits exactly is loaded, and the hint for the rest is followed."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import duckdb
import pyarrow as pa
import pytest
from pyarrow import parquet

from integration.files.landing import good, loaded, run, stream

pytestmark = pytest.mark.spark

NANOSECONDS = 1735689600123456000


def test_types_that_spark_has_no_name_for(workspace, landing, spark):
    at = datetime(2025, 1, 1, 0, 0, 0, 123456)  # noqa: DTZ001 - without a zone
    values = {
        "at": (pa.array([NANOSECONDS, None]).cast(pa.timestamp("ns")), at),
        "seen": (pa.array([NANOSECONDS, None]).cast(pa.timestamp("ns", "Europe/Berlin")), at.replace(tzinfo=UTC)),
        "second": (pa.array([3_661, None], pa.time32("s")), "01:01:01.000000"),
        "milli": (pa.array([3_661_002, None], pa.time32("ms")), "01:01:01.002000"),
        "micro": (pa.array([86_399_999_999, None], pa.time64("us")), "23:59:59.999999"),
        "nano": (pa.array([1_000, None], pa.time64("ns")), "00:00:00.000001"),
        "half": (pa.array([-0.333251953125, None], pa.float16()), -0.333251953125),
        "tiny": (pa.array([2**-24, None], pa.float16()), 2**-24),
        "huge": (pa.array([2**64 - 1, None], pa.uint64()), Decimal(2**64 - 1)),
        "wide": (pa.array(["a", None], pa.large_string()), "a"),
        "view": (pa.array(["b", None], pa.string_view()), "b"),
        "word": (pa.array(["c", None]).dictionary_encode(), "c"),
        "fixed": (pa.array([b"ab", None], pa.binary(2)), b"ab"),
        "exact": (pa.array([Decimal("1.50"), None], pa.decimal256(20, 2)), Decimal("1.50")),
        "pair": (pa.array([[1, 2], None], pa.list_(pa.int32(), 2)), [1, 2]),
        "inner": (pa.array([{"a b": 1, "l": [True]}, None]), '{"a b":1,"l":[true]}'),
        "span": (pa.array([5, None], pa.duration("ms")), 5),
    }
    parquet.write_table(pa.table({name: array for name, (array, _) in values.items()}), landing / "arrow.parquet")
    duckdb.execute(
        "COPY (SELECT UUID '0199d3a1-7c00-7abc-8def-0123456789ab' AS u, '[1]'::JSON AS j, TIME '10:00:00.5' AS t, "
        "TIMESTAMP_NS '2025-01-01 00:00:00.000001' AS n, 255::UTINYINT AS b, 'x'::ENUM('x', 'y') AS e, "
        f"INTERVAL '3 days' AS i, 12345678901::HUGEINT AS h) TO '{landing}/duck.parquet'"
    )
    stated = {"inner": "json", "span": "bigint"}
    workspace.write(
        {
            "arrow": stream(f"{landing.name}/arrow.parquet", "arrow", source={"columns": stated}),
            "duck": stream(f"{landing.name}/duck.parquet", "duck", source={"columns": {"i": "binary"}}),
        }
    )
    good(workspace, "arrow", spark)
    first, second = sorted(workspace.rows("s.arrow"), key=lambda row: row["at"] is None)
    assert first == {name: value for name, (_, value) in values.items()}
    assert second == dict.fromkeys(values)
    good(workspace, "duck", spark)
    assert workspace.rows("s.duck") == [
        {
            "u": str(UUID("0199d3a1-7c00-7abc-8def-0123456789ab")),
            "j": "[1]",
            "t": "10:00:00.500000",
            "n": datetime(2025, 1, 1, 0, 0, 0, 1),  # noqa: DTZ001 - without a zone
            "b": 255,
            "e": "x",
            "i": (0).to_bytes(4) + (3).to_bytes(4, "little") + (0).to_bytes(4),
            "h": 12345678901.0,
        }
    ]


@pytest.mark.parametrize(
    ("array", "code", "followed", "value"),
    [
        (pa.array([1_001], pa.timestamp("ns")), "file_unreadable", {"options": {"round": True}}, "1 µs"),
        (pa.array([1_001], pa.time64("ns")), "file_unreadable", {"columns": {"x": "bigint"}}, 1_001),
        (pa.array([1_001], pa.timestamp("ns", "UTC")), "file_unreadable", {"columns": {"x": "bigint"}}, 1_001),
        (pa.array([7], pa.duration("s")), "schema_refused", {"columns": {"x": "bigint"}}, 7),
        (pa.array([Decimal(1)], pa.decimal256(50, 2)), "schema_refused", {"exclude": ["x"]}, None),
        (pa.array([[1]], pa.list_(pa.timestamp("ns"))), "schema_refused", {"exclude": ["x"]}, None),
    ],
    ids=str,
)
def test_what_does_not_fit_is_loaded_as_the_hint_says(workspace, landing, spark, array, code, followed, value):
    parquet.write_table(pa.table({"id": [1], "x": array}), landing / "1.parquet")
    workspace.write({"t": stream(f"{landing.name}/*.parquet")})
    error = run(workspace, "t", spark).error
    assert error.code == code, error
    assert "1.parquet" in error.message
    assert "'x'" in error.message
    assert "1001" not in error.message + error.hint
    name, setting = next(iter(followed.items()))
    inner = setting if isinstance(setting, list) else next(iter(setting))
    assert f"{name}: " in error.hint
    assert (f"[{inner[0]}]" if isinstance(inner, list) else f"{inner}: ") in error.hint
    table = "own" if "`target:`" in error.hint else "t"
    workspace.write({"t": stream(f"{landing.name}/*.parquet", table, source=followed)})
    good(workspace, "t", spark)
    wanted = datetime(1970, 1, 1, 0, 0, 0, 1) if value == "1 µs" else value  # noqa: DTZ001 - without a zone
    assert workspace.rows(f"s.{table}") == [{"id": 1} if value is None else {"id": 1, "x": wanted}]


def test_numbers_of_another_type_in_the_next_file(workspace, landing, spark):
    """As pandas writes whole numbers once one of them is missing."""
    workspace.write({"t": stream(f"{landing.name}/*.parquet")})
    parquet.write_table(pa.table({"id": pa.array([1], pa.int64())}), landing / "1.parquet")
    good(workspace, "t", spark)
    for name, array in {
        "2": pa.array([2.0, None, float(2**53), -(2.0**63)]),
        "3": pa.array([Decimal("3.00")], pa.decimal128(9, 2)),
        "4": pa.array([4], pa.int32()),
        "5": pa.array([5.0], pa.float32()),
    }.items():
        parquet.write_table(pa.table({"id": array}), landing / f"{name}.parquet")
    good(workspace, "t", spark)
    found = [(each,) for each in (1, 2, 2**53, -(2**63), 3, 4, 5, None)]
    assert loaded(workspace, "t", "id") == sorted(found, key=str)
    for wrong in (pa.array([6.5]), pa.array([2.0**63]), pa.array([Decimal("6.50")]), pa.array([float("nan")])):
        parquet.write_table(pa.table({"id": wrong}, schema=pa.schema([("id", wrong.type)])), landing / "6.parquet")
        error = run(workspace, "t", spark).error
        assert error.code == "file_unreadable", error
        assert all(part in error.message for part in ("6.parquet", "column 'id'", "not exactly a bigint")), error
        assert "6.5" not in error.message
    parquet.write_table(pa.table({"id": pa.array([6.5])}), landing / "6.parquet")
    assert "columns: {id: double}" in run(workspace, "t", spark).error.hint
    workspace.write({"t": stream(f"{landing.name}/*.parquet", source={"columns": {"id": "double"}})})
    outcome = run(workspace, "t", spark, full_refresh=True)
    assert outcome.error is None, outcome.error
    assert (6.5,) in loaded(workspace, "t", "id")
