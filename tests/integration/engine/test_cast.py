"""`type_change: cast`: the table keeps its types; every value is proven on both sides, or stops the load."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import pytest

from integration.engine.conftest import DuckdbShop
from support.shops import PostgresShop

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

BEFORE = ("DECIMAL(12,2)", "DECIMAL(14,4)", "TEXT", "TEXT", "TIMESTAMP", "BIGINT", "BIGINT")
AFTER = ("INTEGER", "DECIMAL(12,2)", "BIGINT", "DATE", "DATE", "TEXT", "DECIMAL(9,0)")
NAMES = ("price", "rate", "code", "label", "day", "size", "weight")
OLD = "'7.00', '1.5000', '10', '2024-02-29', '2024-02-29 00:00:00', '-3', '4'"
SAME = "7, '1.50', '10', '2024-02-29', '2024-02-29', '-3', '4'"
NEW = "8, '-0.05', '-20', '2025-01-31', '0001-01-01', '9223372036854775807', '0'"
NULLS = ", ".join(["NULL"] * len(NAMES))
ROWS = [
    (Decimal("7.00"), Decimal("1.5000"), "10", "2024-02-29", datetime(2024, 2, 29), -3, 4),  # noqa: DTZ001 - no zone
    (Decimal("8.00"), Decimal("-0.0500"), "-20", "2025-01-31", datetime(1, 1, 1), 2**63 - 1, 0),  # noqa: DTZ001
    (None,) * len(NAMES),
]
WATERMARK = {"kind": "watermark", "column": "moved", "clock": "application", "safety_lag": "1s", "lookback": "2d"}
CHECKSUM = {"kind": "checksum", "method": "by_integer", "column": "id", "modulus": 2}


def make(bench, types, *rows):
    """A server tells a table that was made again, so that one keeps its table."""
    columns = dict(zip(NAMES, types, strict=True))
    if bench.shop.url.startswith("postgresql") and types is AFTER:
        changes = (f"ALTER TABLE t ALTER {name} TYPE {kind} USING NULL" for name, kind in columns.items())
        bench.sql("TRUNCATE t", *changes)
    else:
        key = "INTEGER" if bench.shop.url.startswith("sqlite") else "BIGINT"
        listed = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        create = f"CREATE TABLE t (id {key} NOT NULL PRIMARY KEY, {listed}, moved TIMESTAMP NOT NULL)"
        bench.sql("DROP TABLE IF EXISTS t", create)
    bench.sql(*(f"INSERT INTO t VALUES ({n}, {row}, '2025-01-0{n} 00:00:00')" for n, row in enumerate(rows, 1)))


def held(bench):
    return [row[1:] for row in bench.rows("id", *NAMES)]


@pytest.mark.parametrize(
    ("bench", "database", "options"),
    [
        ("iceberg", "sqlite", {"strategy": WATERMARK}),
        ("delta", "duckdb", {"strategy": "full", "write": "replace"}),
        pytest.param("iceberg", "postgresql", {"strategy": CHECKSUM}, marks=pytest.mark.postgres),
    ],
    indirect=["bench"],
)
def test_values_that_fit_are_cast_and_proven(bench, request, database, options):
    if database == "duckdb":
        bench.shop = DuckdbShop(path=bench.folder / "shop.duckdb")
    elif database == "postgresql":
        bench.shop = PostgresShop(url=request.getfixturevalue("pg_url"))
    make(bench, BEFORE, OLD)
    bench.write(**options, contract={"type_change": "cast"})
    bench.loaded()
    make(bench, AFTER, SAME, NEW, NULLS)
    with bench.project() as project:
        (plan,) = project.plan().streams
    changed = {each["column"] for each in plan.schema_changes if each["kind"] == "type_change"}
    assert (plan.error, changed >= {"price", "size", "day"}) == (None, True)
    done = bench.loaded()
    assert not any("not covered" in note for note in done.notes)
    assert held(bench) == ROWS
    # What only the source has changed is found, as of any other column.
    bench.sql("UPDATE t SET price = 9 WHERE id = 1")
    assert bench.verify(level="rows").equal is False
    repaired = bench.verify(repair=True)
    assert (repaired.error, repaired.equal) == (None, True)
    assert held(bench)[0][0] == Decimal("9.00")


def test_the_first_value_that_does_not_fit_stops_the_load(bench):
    make(bench, BEFORE, OLD)
    bench.write(WATERMARK, contract={"type_change": "cast"})
    bench.loaded()
    make(bench, AFTER, SAME, SAME)
    for value in ("007", "7.0", "9223372036854775808"):
        bench.sql(f"UPDATE t SET size = '{value}' WHERE id = 2")
        code, message, _ = bench.refused()
        assert (code, "'size'" in message, value in message) == ("schema_refused", True, False)
        assert held(bench) == ROWS[:1]
    bench.sql("UPDATE t SET size = '-3' WHERE id = 2")
    bench.loaded()
    assert held(bench) == [ROWS[0], ROWS[0]]
