"""What a PostgreSQL session reads of tables that are emptied and filled again while it takes its snapshot.

TRUNCATE and its like are seen by every snapshot: one that is older than the rows that follow sees an empty table.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import psycopg
import pytest

from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import Row
from tidegate.core.slices import Everything
from tidegate.dialects.postgresql.session import ATTEMPTS
from tidegate.errors import SourceUnavailable
from tidegate.sources.database import Database

pytestmark = pytest.mark.postgres

OLD, NEW = 3, 7
FILL = "INSERT INTO {} SELECT i FROM generate_series(1, {}) AS s(i)"
TABLE = ("CREATE TABLE numbers (id int)",)
VIEW = (*TABLE, "CREATE VIEW seen AS SELECT id FROM numbers WHERE id > 0")
PARTITIONS = (
    "CREATE TABLE numbers (id int) PARTITION BY RANGE (id)",
    "CREATE TABLE low PARTITION OF numbers FOR VALUES FROM (0) TO (5)",
    "CREATE TABLE high PARTITION OF numbers FOR VALUES FROM (5) TO (1000)",
)
TRUNCATE = ("TRUNCATE {}", FILL.format("{}", NEW))
SWAP = (
    "CREATE TABLE fresh (LIKE numbers)",
    FILL.format("fresh", NEW),
    "GRANT SELECT ON fresh TO PUBLIC",
    "ALTER TABLE numbers RENAME TO stale",
    "ALTER TABLE fresh RENAME TO numbers",
    "DROP TABLE stale",
)
REWRITE = ("DELETE FROM {}", FILL.format("{}", NEW), "ALTER TABLE {} ALTER COLUMN id TYPE bigint")

# Name: how the tables are made, the source, the table that is replaced, and how.
CASES = {
    "table": (TABLE, {"table": "numbers"}, "numbers", TRUNCATE),
    "table swapped": (TABLE, {"table": "numbers"}, "numbers", SWAP),
    "table rewritten": (TABLE, {"table": "numbers"}, "numbers", REWRITE),
    "partitioned table": (PARTITIONS, {"table": "numbers"}, "numbers", TRUNCATE),
    "partition": (PARTITIONS, {"table": "numbers"}, "high", ("TRUNCATE high", "INSERT INTO high VALUES (5), (6)")),
    "inherited table": (
        ("CREATE TABLE parent (id int)", "CREATE TABLE numbers () INHERITS (parent)"),
        {"table": "parent"},
        "numbers",
        TRUNCATE,
    ),
    "view": (VIEW, {"table": "seen"}, "numbers", TRUNCATE),
    "view of a view": (
        (*VIEW, "CREATE VIEW again AS WITH s AS (SELECT id FROM seen) SELECT id FROM s"),
        {"table": "again"},
        "numbers",
        TRUNCATE,
    ),
    "view with a subquery": (
        (
            *TABLE,
            "CREATE VIEW seen AS SELECT i AS id FROM generate_series(1, 99) i WHERE i IN (SELECT id FROM numbers)",
        ),
        {"table": "seen"},
        "numbers",
        TRUNCATE,
    ),
    "view of partitions": (
        (*PARTITIONS, "CREATE VIEW seen AS SELECT id FROM numbers"),
        {"table": "seen"},
        "numbers",
        TRUNCATE,
    ),
    "query": (TABLE, {"query": "SELECT id FROM numbers"}, "numbers", TRUNCATE),
    "query swapped": (TABLE, {"query": "SELECT id FROM numbers"}, "numbers", SWAP),
    "query rewritten": (TABLE, {"query": "SELECT id::int FROM numbers"}, "numbers", REWRITE),
    "query of a view": (VIEW, {"query": "SELECT s.id FROM seen AS s"}, "numbers", TRUNCATE),
    "query through a function": (
        (*TABLE, "CREATE FUNCTION read() RETURNS SETOF int LANGUAGE sql STABLE AS 'SELECT id FROM numbers'"),
        {"query": "SELECT id FROM read() AS r(id)"},
        "numbers",
        TRUNCATE,
    ),
    "materialized view": (
        (*TABLE, "CREATE MATERIALIZED VIEW kept AS SELECT id FROM numbers"),
        {"table": "kept"},
        "numbers",
        (*TRUNCATE, "REFRESH MATERIALIZED VIEW kept"),
    ),
}


@contextmanager
def waiting(url: str, work: tuple[str, ...]) -> Iterator[psycopg.Connection]:
    """A transaction that has done the work and stays open; it commits once another session waits for its lock."""

    def commit_when_waited_for() -> None:
        with psycopg.connect(url, autocommit=True) as other:
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline:
                ((found,),) = other.execute(
                    "SELECT count(*) FROM pg_locks WHERE NOT granted AND database = "
                    "(SELECT oid FROM pg_database WHERE datname = current_database())"
                )
                if found:
                    break
                time.sleep(0.02)
            waited.append(found > 0)
        writer.execute("COMMIT")

    waited: list[bool] = []
    with psycopg.connect(url, autocommit=True) as writer:
        writer.execute("BEGIN")
        for statement in work:
            writer.execute(statement)
        thread = threading.Thread(target=commit_when_waited_for)
        thread.start()
        yield writer
        thread.join(30)
    assert waited == [True]


def run(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as admin:
        for statement in statements:
            admin.execute(statement)


@pytest.mark.parametrize("case", CASES)
def test_what_is_replaced_while_the_snapshot_is_taken_is_read_as_it_is_afterwards(
    pg_url: str, reader: str, case: str
) -> None:
    """And nothing of it is replaced again before the end.

    The login may read the source alone: not the tables of a view, and of a query's table one column.
    """
    made, values, table, work = CASES[case]
    run(pg_url, *made, FILL.format("numbers", OLD))
    if case == "materialized view":
        run(pg_url, "REFRESH MATERIALIZED VIEW kept")
    named = values.get("table")
    run(pg_url, f"GRANT SELECT ON {named} TO reader" if named else "GRANT SELECT (id) ON numbers TO reader")
    if case == "query of a view":
        run(pg_url, "GRANT SELECT (id) ON seen TO reader", "REVOKE ALL ON numbers FROM reader")
    statements = tuple(each.format(table) for each in work)
    with ExitStack() as opened:
        with waiting(pg_url, statements):
            source = Database(connection=Connection(name="shop", url=reader), **values)
            probe = opened.enter_context(source.probe())
            rows = probe.count(Everything())
        with psycopg.connect(pg_url) as admin:
            ((expected,),) = admin.execute(f"SELECT count(*) FROM {named or 'numbers'}")
        assert rows == expected > OLD
        with pytest.raises(psycopg.errors.LockNotAvailable):
            run(pg_url, "SET lock_timeout = '50ms'", "BEGIN", *statements)
        assert probe.count(Everything()) == rows


@pytest.mark.parametrize(("times", "found"), [(ATTEMPTS - 1, True), (ATTEMPTS, False)])
def test_a_table_that_is_replaced_again_and_again_is_not_read(pg_url: str, times: int, found: bool) -> None:
    run(pg_url, *VIEW, FILL.format("numbers", OLD))
    with Database(connection=Connection(name="shop", url=pg_url), table="seen").probe() as probe:
        ask, left = probe.session.rows, iter(range(times))

        def rows(sql: str) -> list[Row]:
            if sql.startswith("EXPLAIN") and next(left, None) is not None:
                run(pg_url, "BEGIN", "TRUNCATE numbers", FILL.format("numbers", NEW), "COMMIT")
            return ask(sql)

        probe.session.rows = rows
        if found:
            assert probe.count(Everything()) == NEW
        else:
            with pytest.raises(SourceUnavailable, match="replaces the rows of numbers again and again") as refused:
                probe.count(Everything())
            assert refused.value.retryable


def test_what_keeps_its_rows_needs_no_second_attempt(pg_url: str) -> None:
    """Rows and statistics that change under the locks of a load, and an index of one's own, replace nothing."""
    run(pg_url, *TABLE, FILL.format("numbers", OLD), "CREATE INDEX ON numbers (id)")
    with Database(connection=Connection(name="shop", url=pg_url), table="numbers").probe() as probe:
        ask, asked = probe.session.rows, []

        def rows(sql: str) -> list[Row]:
            asked.append(sql)
            if sql.startswith("EXPLAIN"):
                run(pg_url, FILL.format("numbers", NEW), "VACUUM ANALYZE numbers", "VACUUM FULL pg_class")
            return ask(sql)

        probe.session.rows = rows
        assert probe.count(Everything()) == OLD
        assert asked.count("ROLLBACK") == 0
