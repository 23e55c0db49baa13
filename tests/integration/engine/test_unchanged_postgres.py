"""Strategy `full` on PostgreSQL: an empty source, an unchanged one, and a column that is left out."""

from __future__ import annotations

import psycopg
import pytest

from support.workspace import Workspace
from tidegate.core.outcome import Result

pytestmark = [pytest.mark.spark, pytest.mark.postgres, pytest.mark.slow]


@pytest.fixture
def shop(pg_url):
    with psycopg.connect(pg_url, autocommit=True) as session:
        session.execute(
            "CREATE TABLE people (id int PRIMARY KEY, name text NOT NULL, born date, pay numeric(10,2), "
            "at timestamptz, ssn text)"
        )
        yield session


@pytest.mark.parametrize("query", [False, True], ids=["table", "query"])
def test_only_what_is_read_counts(tmp_path, pg_url, shop, spark, query):
    workspace = Workspace(folder=tmp_path)
    named = {"query": "SELECT * FROM people"} if query else {"table": "public.people"}
    source = {"connection": "shop", **named, "exclude": ["ssn"]}
    people = {"source": source, "target": "lake.s.people", "strategy": "full", "write": "replace"}
    workspace.write({"people": people}, connections={"shop": {"url": pg_url}})

    def run(borrowed=None):
        (outcome,) = workspace.run("people", spark=borrowed).streams
        assert outcome.error is None
        return outcome

    run(spark)
    assert [field.name for field in workspace.table("s.people").schema().fields] == ["id", "name", "born", "pay", "at"]
    assert workspace.rows("s.people") == []
    before = workspace.snapshots("s.people")
    assert run(spark).outcome is Result.UNCHANGED
    assert workspace.snapshots("s.people") == before

    shop.execute(
        "INSERT INTO people VALUES (1, 'Ada', '1815-12-10', 1.5, '2025-01-01', 'a'), (2, 'Bo', NULL, NULL, NULL, NULL)"
    )
    loaded = run(spark)
    assert (loaded.outcome, loaded.verified, loaded.rows_read) == (Result.LOADED, True, 2)
    before = workspace.snapshots("s.people")
    for statement in (
        "UPDATE people SET ssn = 'b'",
        "ALTER TABLE people ALTER ssn TYPE bytea USING ssn::bytea",
        "ALTER TABLE people ALTER ssn TYPE interval USING NULL",
    ):
        shop.execute(statement)
        unchanged = run()  # no session is lent: a load would start one
        assert (unchanged.outcome, unchanged.spark_started) == (Result.UNCHANGED, False)
    assert workspace.snapshots("s.people") == before

    shop.execute("UPDATE people SET pay = 1.51 WHERE id = 1")
    assert run(spark).verified
    assert {row["id"]: str(row["pay"]) for row in workspace.rows("s.people")} == {1: "1.51", 2: "None"}
    assert run(spark).outcome is Result.UNCHANGED
    shop.execute("ALTER TABLE people DROP COLUMN ssn")
    (stopped,) = workspace.run("people", spark=spark).streams
    assert (stopped.error.code, "'ssn'" in stopped.error.message) == ("config", True)
