"""Columns that the contract does not let into a table are kept beside it, and the rest is proven as ever."""

from __future__ import annotations

import json

import pytest

pytestmark = [pytest.mark.spark]
WATERMARK = {"kind": "watermark", "column": "at"}


def rescued(bench):
    return {key: text and json.loads(text) for key, text in bench.rows("id", "_rescued")}


def test_new_columns_and_columns_of_another_type_go_into_one(bench):
    bench.sql(
        "create table t (id integer not null primary key, name text, at timestamp not null)",
        "insert into t values (1, 'a', '2025-01-01 00:00:00'), (2, 'b', '2025-01-02 00:00:00')",
    )
    bench.write(WATERMARK, contract={"add_column": "rescue", "type_change": "rescue"})
    bench.loaded()
    assert set(bench.rows()[0]) == {"id", "name", "at"}, "a table that is not there yet gets every column"
    bench.sql(
        "alter table t add column price decimal(9,2)",
        """alter table t add column "odd ${name}'s" text""",
        "insert into t values (3, 'c', '2025-01-03 00:00:00', 1.5, 'x\"y'), (4, 'd', '2025-01-03', null, null)",
        "update t set price = 7, at = '2025-01-04 00:00:00' where id = 1",
    )
    with bench.project() as project:
        planned = project.plan("t").streams[0].to_dict()["schema_changes"]
    assert [(change["kind"], change["column"]) for change in planned] == [
        ("add_column", "_rescued"),
        ("add_column", "price"),
        ("add_column", "odd ${name}'s"),
    ]
    outcome = bench.loaded()
    assert outcome.rows_read == 3
    assert "not covered by the fingerprint: _rescued" in outcome.notes
    assert set(bench.rows()[0]) == {"id", "name", "at", "_rescued"}
    kept = {1: {"price": "7.00"}, 2: None, 3: {"price": "1.50", "odd ${name}'s": 'x"y'}, 4: None}
    assert rescued(bench) == kept
    bench.unchanged()
    compared = bench.verify(level="rows")
    assert (compared.equal, compared.columns_not_covered) == (True, ("_rescued",))
    # A value of a column of the table is proven as ever.
    bench.sql("update t set name = 'silently' where id = 2")
    assert not bench.verify().equal
    repaired = bench.verify(repair=True)
    assert (repaired.error, repaired.equal) == (None, True)
    assert bench.rows("id", "name")[1] == (2, "silently")

    # Another type, by a new column of the old name.
    bench.sql(
        "alter table t drop column name",
        "alter table t add column name decimal(9,0)",
        "insert into t (id, at, name) values (5, '2025-01-05', 8)",
    )
    assert bench.loaded().rows_read == 1
    assert bench.rows("id", "name")[4] == (5, None)
    assert rescued(bench) == {**kept, 5: {"name": "8"}}


def test_what_is_discarded_is_left_out_and_told(bench):
    bench.sql(
        "create table t (id integer not null primary key, size integer, at timestamp not null)",
        "insert into t values (1, 10, '2025-01-01 00:00:00')",
    )
    bench.write(WATERMARK, contract={"type_change": "discard", "add_column": "discard"})
    bench.loaded()
    bench.sql(
        "alter table t drop column size",
        "alter table t add column size text",
        "alter table t add column extra text",
        "insert into t values (3, '2025-01-03 00:00:00', 'XL', 'x')",
    )
    load = bench.loaded().position["load_id"]
    assert bench.rows("id", "size") == [(1, 10), (3, None)]
    assert set(bench.rows()[0]) == {"id", "size", "at"}
    with bench.workspace.project() as project:
        changes = project.registry.plan(load).plan["schema_changes"]
    assert {(each["kind"], each["column"]) for each in changes[-2:]} == {
        ("add_column", "extra"),
        ("type_change", "size"),
    }
