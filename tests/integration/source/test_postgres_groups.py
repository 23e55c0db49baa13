"""Partitions by periods in PostgreSQL: grouped by moments and named by texts, they are those of the canonical texts."""

from __future__ import annotations

from collections import defaultdict

import psycopg
import pytest

from tidegate.core.fingerprint import Fingerprint, row_text
from tidegate.core.grouping import CHARACTERS, Period, Periods
from tidegate.core.ids import Connection
from tidegate.core.slices import Everything, Range, Slice
from tidegate.errors import SchemaRefused
from tidegate.sources.database import Database, probe

pytestmark = pytest.mark.postgres
DAYS = ["0001-01-01", "0001-12-31", "1582-10-10", "1969-12-31", "2024-02-29", "2024-03-10", "2024-12-30", "2025-01-01"]
DAYS += ["2025-01-05", "2025-01-06", "2025-03-31", "2025-04-01", "2025-11-02", "9999-12-26", "9999-12-31"]
MOMENTS = [
    f"{day} {clock}"
    for day in DAYS
    for clock in ("00:00:00.000000", "04:59:59.999999", "06:30:00.000000", "23:59:59.999999")
]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
@pytest.mark.parametrize("kind", ["date", "timestamp", "timestamptz"])
def test_a_period_is_the_beginning_of_the_canonical_text(pg_url, kind, zone):
    values = DAYS if kind == "date" else MOMENTS
    suffix = "+00" if kind == "timestamptz" else ""
    with psycopg.connect(pg_url, autocommit=True) as session:
        session.execute(f"alter database {pg_url.rsplit('/', 1)[1]} set timezone = '{zone}'")
        session.execute(f"create table t (c {kind})")
        session.cursor().executemany("insert into t values (%s)", [(f"{value}{suffix}",) for value in values])
        session.execute("insert into t values (null)")
    with Database(connection=Connection(name="x", url=pg_url), table="t").probe() as probe:
        column = probe.schema().find("c")
        for period in Period:
            if period is Period.HOUR and kind == "date":
                continue
            grouping = Periods(column="c", period=period)
            wanted: defaultdict[Slice, Fingerprint] = defaultdict(Fingerprint)
            for value in [*values, None]:
                bucket = value and grouping.coarse(value[: CHARACTERS[period]])
                wanted[grouping.part(bucket, column)] += Fingerprint.of_texts([row_text([value])])
            assert probe.partitions(grouping) == wanted, period
            assert set(probe.quick_hashes(grouping) or ()) == set(wanted), period


@pytest.mark.parametrize("value", ["infinity", "-infinity", "0001-12-31 23:59:59 BC", "10000-01-01 00:00:00"])
def test_a_moment_that_has_no_canonical_text_is_named_by_its_column(pg_url, value):
    with psycopg.connect(pg_url, autocommit=True) as session:
        session.execute("create table t (c timestamptz, d int)")
        session.execute("insert into t values (%s, 1), ('2025-01-01', 2)", (value,))
    with (
        Database(connection=Connection(name="x", url=pg_url), table="t").probe() as probe,
        pytest.raises(SchemaRefused, match="column 'c'"),
    ):
        probe.quick_hashes(Periods(column="c", period=Period.DAY))


def test_its_own_hash_tells_other_values_in_parts_of_a_table_too(pg_url):
    with psycopg.connect(pg_url, autocommit=True) as session:
        session.execute(
            f"create table t as select n, 'k' || n as k, n as other from generate_series(1, {probe.SPLIT_ROWS}) n"
        )

    def asked() -> tuple[int, str] | None:
        with Database(connection=Connection(name="x", url=pg_url), table="t").probe() as probe:
            return probe.quick_hash(["k", "n"])

    first = asked()
    assert first is not None
    assert first[0] == probe.SPLIT_ROWS
    with psycopg.connect(pg_url, autocommit=True) as session:
        session.execute("analyze t")
        session.execute("update t set other = 0 where n % 7 = 0")
    assert asked() == first
    with psycopg.connect(pg_url, autocommit=True) as session:
        session.execute("update t set k = 'k' || (case n when 1 then 2 else 1 end) where n in (1, 2)")
    found = asked()
    assert found is not None
    assert found[0] == probe.SPLIT_ROWS
    assert found != first


def test_the_bounds_of_a_key_are_told_by_its_index(pg_url):
    with psycopg.connect(pg_url, autocommit=True) as session:
        session.execute(f"create table t as select n from generate_series(-50, {probe.SPLIT_ROWS}) n")
        session.execute("alter table t add primary key (n)")
        session.execute("analyze t")
    with Database(connection=Connection(name="x", url=pg_url), table="t").probe() as opened:
        asked = opened.statements.key_bounds(Everything(), "n", counted=False)
        assert "Index" in str(opened.session.rows(f"EXPLAIN {asked}"))
        parts = (Everything(), Range(cursor=("n",), after=None, upto="-49"))
        bounds, few = (opened.key_bounds(part, "n") for part in parts)
        assert (bounds.low, bounds.high, bounds.values) == ("-50", str(probe.SPLIT_ROWS), ())
        assert few.values == ("-49", "-50")
