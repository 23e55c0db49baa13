"""`contract: {type_change: cast}`: the table keeps its types; every value is proven on both sides, or stops the load.

Read back by PyIceberg and delta-rs.
"""

from __future__ import annotations

import dataclasses
from datetime import datetime
from decimal import Decimal

import duckdb
import psycopg
import pytest

from support.lake import delta_rows
from support.workspace import SqliteShop, Workspace

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BEFORE = ("DECIMAL(12,2)", "DECIMAL(14,4)", "TEXT", "TEXT", "TIMESTAMP", "BIGINT", "BIGINT")
AFTER = ("INTEGER", "DECIMAL(12,2)", "BIGINT", "DATE", "DATE", "TEXT", "DECIMAL(9,0)")
NAMES = ("price", "rate", "code", "label", "day", "size", "weight")
OLD = "'7.00', '1.5000', '10', '2024-02-29', '2024-02-29 00:00:00', '-3', '4'"
SAME = "7, '1.50', '10', '2024-02-29', '2024-02-29', '-3', '4'"
NEW = "8, '-0.05', '-20', '2025-01-31', '0001-01-01', '9223372036854775807', '0'"
STREAM = {
    "source": {"connection": "shop", "table": "t"},
    "target": "lake.s.t",
    "key": ["id"],
    "strategy": {"kind": "watermark", "column": "moved", "clock": "application", "safety_lag": "1s", "lookback": "2d"},
    "write": "merge",
    "contract": {"type_change": "cast"},
}
ROWS = [
    {
        "price": Decimal("7.00"),
        "rate": Decimal("1.5000"),
        "code": "10",
        "label": "2024-02-29",
        "day": datetime(2024, 2, 29),  # noqa: DTZ001 - of a column without a zone
        "size": -3,
        "weight": 4,
    },
    {
        "price": Decimal("8.00"),
        "rate": Decimal("-0.0500"),
        "code": "-20",
        "label": "2025-01-31",
        "day": datetime(1, 1, 1),  # noqa: DTZ001 - as above
        "size": 9223372036854775807,
        "weight": 0,
    },
    dict.fromkeys(NAMES),
]


@dataclasses.dataclass
class Shop:
    """A table `t` whose types change."""

    url: str

    def sql(self, *statements):
        if self.url.startswith("sqlite"):
            SqliteShop(path=self.url.removeprefix("sqlite:///")).sql(*statements)
            return
        connect = duckdb.connect if self.url.startswith("duckdb") else psycopg.connect
        with connect(self.url.removeprefix("duckdb:///")) as session:
            for statement in statements:
                session.execute(statement)

    def make(self, types, *rows):
        self.sql(*self._made(types))
        self.sql(*(f"INSERT INTO t VALUES ({n}, {row}, '2025-01-0{n} 00:00:00')" for n, row in enumerate(rows, 1)))

    def _made(self, types):
        """A server tells a table that was made again, so that one keeps its table."""
        columns = dict(zip(NAMES, types, strict=True))
        if self.url.startswith("postgresql") and types is AFTER:
            yield "TRUNCATE t"
            yield from (f"ALTER TABLE t ALTER {name} TYPE {kind} USING NULL" for name, kind in columns.items())
            return
        listed = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        key = "INTEGER" if self.url.startswith("sqlite") else "BIGINT"
        yield "DROP TABLE IF EXISTS t"
        yield f"CREATE TABLE t (id {key} NOT NULL PRIMARY KEY, {listed}, moved TIMESTAMP NOT NULL)"


@pytest.fixture(params=["sqlite", "duckdb", pytest.param("postgresql", marks=pytest.mark.postgres)])
def shop(request, tmp_path):
    if request.param == "postgresql":
        return Shop(request.getfixturevalue("pg_url"))
    return Shop(f"{request.param}:///{tmp_path / 'shop.db'}")


def state(tmp_path, shop, form="iceberg", **more):
    workspace = Workspace(folder=tmp_path)
    lakes = {"lake": {"format": form}}
    workspace.write({"t": {**STREAM, **more}}, connections={"shop": {"url": shop.url}}, lakes=lakes)
    return workspace


def table(workspace, form="iceberg"):
    if form == "delta":
        found = delta_rows(str(workspace.folder / "warehouse" / "s" / "t"))
    else:
        found = workspace.table("s.t").scan().to_arrow().to_pylist()
    return [{name: row[name] for name in NAMES} for row in sorted(found, key=lambda row: row["id"])]


def one(workspace, spark, **options):
    (outcome,) = workspace.run(spark=spark, **options).streams
    return outcome


NULLS = ", ".join(["NULL"] * len(NAMES))


CHECKSUM = {"kind": "checksum", "method": "by_integer", "column": "id", "modulus": 2}


@pytest.mark.parametrize(
    ("form", "more"),
    [
        pytest.param("iceberg", {}, id="merge"),
        pytest.param("delta", {"strategy": "full", "write": "replace"}, id="full"),
        pytest.param("delta", {}, id="delta", marks=pytest.mark.exhaustive),
        pytest.param("iceberg", {"strategy": "snapshot_diff"}, id="snapshot_diff", marks=pytest.mark.exhaustive),
        pytest.param("iceberg", {"strategy": CHECKSUM}, id="checksum", marks=pytest.mark.exhaustive),
    ],
)
def test_values_that_fit_are_cast_and_proven(tmp_path, spark, shop, form, more):
    shop.make(BEFORE, OLD)
    workspace = state(tmp_path, shop, form, **more)
    assert one(workspace, spark).verified
    shop.make(AFTER, SAME, NEW, NULLS)
    with workspace.project(spark) as project:
        (plan,) = project.plan().streams
    assert plan.error is None
    assert {each["column"] for each in plan.schema_changes if each["kind"] == "type_change"} >= {"price", "size", "day"}

    done = one(workspace, spark)
    assert (done.error, done.verified) == (None, True)
    assert not any("not covered" in note for note in done.notes)
    assert table(workspace, form) == ROWS
    with workspace.project(spark) as project:
        (report,) = project.verify(level="rows").streams
    assert (report.error, report.equal) == (None, True)

    # What only the source has changed is found, as of any other column.
    shop.sql("UPDATE t SET price = 9 WHERE id = 1")
    with workspace.project(spark) as project:
        (report,) = project.verify(level="rows").streams
        assert report.equal is False
        (repaired,) = project.verify(repair=True).streams
    assert (repaired.error, repaired.equal) == (None, True)
    assert table(workspace, form)[0]["price"] == Decimal("9.00")


@pytest.mark.parametrize("value", ["'007'", "'7.0'", "'seven'", "'9223372036854775808'", "' 7'", "''"])
def test_the_first_value_that_does_not_fit_stops_the_load(tmp_path, spark, value):
    shop = Shop(f"sqlite:///{tmp_path / 'shop.db'}")
    shop.make(BEFORE, OLD)
    workspace = state(tmp_path, shop)
    assert one(workspace, spark).verified
    shop.make(AFTER, SAME, SAME.replace("'-3'", value))
    stopped = one(workspace, spark)
    assert stopped.error.code == "schema_refused"
    assert "'size'" in stopped.error.message
    assert value.strip("'") == "" or value.strip("'") not in stopped.error.message
    assert table(workspace) == ROWS[:1]
    shop.sql("UPDATE t SET size = '-3' WHERE id = 2")
    assert one(workspace, spark).verified
    assert table(workspace) == [ROWS[0], ROWS[0]]


@pytest.mark.parametrize(
    ("before", "after", "column"),
    [
        ("DECIMAL(12,2)", "DECIMAL(12,4)", "price"),
        ("DECIMAL(12,2)", "DOUBLE", "price"),
        ("DATE", "TEXT", "price"),
        ("BOOLEAN", "INTEGER", "price"),
    ],
)
def test_a_pair_that_cannot_be_proven_stops_with_the_reason(tmp_path, spark, before, after, column):
    shop = Shop(f"sqlite:///{tmp_path / 'shop.db'}")
    shop.make((before, *BEFORE[1:]), NULLS)
    workspace = state(tmp_path, shop)
    assert one(workspace, spark).verified
    shop.make((after, *BEFORE[1:]), NULLS, NULLS)
    stopped = one(workspace, spark)
    assert stopped.error.code == "schema_refused"
    assert f"forbids: {column}: type_change" in stopped.error.message
    assert "`cast` converts integers to decimals" in stopped.error.hint


def test_a_column_that_rows_are_found_by_is_not_cast(tmp_path, spark):
    shop = Shop(f"sqlite:///{tmp_path / 'shop.db'}")
    shop.make(BEFORE, OLD)
    workspace = state(
        tmp_path, shop, strategy={"kind": "checksum", "method": "by_integer", "column": "size", "modulus": 9}
    )
    assert one(workspace, spark).verified
    shop.make(AFTER, SAME)
    stopped = one(workspace, spark)
    assert stopped.error.code == "schema_refused"
    assert "finds rows by it" in stopped.error.message
    assert table(workspace) == ROWS[:1]
