"""The hook `sql` at a real Trino: a materialized view shows the table's rows once it was refreshed, not before."""

from datetime import UTC, datetime

import pytest

from tidegate.core.ids import Connection
from tidegate.core.ports.hook import PublishedLoad
from tidegate.errors import TidegateError
from tidegate.hooks.sql import Sql

pytestmark = [pytest.mark.servers, pytest.mark.timeout(600)]

LOAD = PublishedLoad(
    project="p",
    stream="s",
    target="lake.a.b",
    load_id="l",
    version=None,
    published_at=datetime(2025, 1, 1, tzinfo=UTC),
    rows=None,
    verified=True,
)


def hook(server, statement):
    return Sql(sql=statement, connection=Connection(name="trino", url=server.url()))


def test_a_materialized_view_is_refreshed(trino_server):
    place = "iceberg." + trino_server.create_schema().rpartition("/")[2]
    trino_server.run(f"CREATE SCHEMA {place}")
    trino_server.run(f"CREATE TABLE {place}.t (id bigint)", f"INSERT INTO {place}.t VALUES 1, 2")
    # Within the grace period Trino shows what was kept, although the table has gone on.
    trino_server.run(
        f"CREATE MATERIALIZED VIEW {place}.counted GRACE PERIOD INTERVAL '1' DAY AS SELECT count(*) AS n FROM {place}.t"
    )
    refresh = hook(trino_server, f"REFRESH MATERIALIZED VIEW {place}.counted")
    refresh.refuse()
    refresh.run(LOAD, seconds=60, ended=bool)
    trino_server.run(f"INSERT INTO {place}.t VALUES 3")
    shown = f"SELECT n FROM {place}.counted"
    assert [row[0] for row in trino_server.run(shown)] == [2]
    refresh.run(LOAD, seconds=60, ended=bool)
    assert [row[0] for row in trino_server.run(shown)] == [3]


def test_a_statement_that_fails_or_takes_too_long_is_an_error(trino_server):
    with pytest.raises(TidegateError, match="nowhere"):
        hook(trino_server, "REFRESH MATERIALIZED VIEW iceberg.nowhere.x").run(LOAD, seconds=60, ended=bool)
    numbers = [f"UNNEST(sequence(1, 10000)) {name}(n)" for name in "abc"]
    endless = f"SELECT sum(a.n * b.n + c.n) FROM {', '.join(numbers)}"
    with pytest.raises(TidegateError, match="trino"):
        hook(trino_server, endless).run(LOAD, seconds=2, ended=bool)
