"""Events of Debezium in files: applied and proven, and how often Spark has to decode them for that."""

from __future__ import annotations

import re

import pytest

from tidegate.core.batch import Fence
from tidegate.spark.latest_events import LatestEventsSpec
from tidegate.writers import merge

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

COLUMNS = {
    "id": "bigint",
    "name": "text",
    "price": "decimal(10,2) as bytes",
    "total": "decimal(12,2) as string",
    "seen": "timestamp as MicroTimestamp",
    "on": "date",
}


def event(op, lsn, key, **row):
    put = op != "d"
    source = {"connector": "postgresql", "db": "shop", "schema": "public", "table": "orders", "lsn": lsn}
    source["sequence"] = f'["{lsn}","{lsn}"]'
    return {"before": {"id": key}, "after": {"id": key, **row} if put else None, "source": source, "op": op}


def carrying(message, *names):
    fields = [{"field": name, "type": "string" if name == "name" else "int64"} for name in names]
    return {"schema": {"fields": [{"field": "after", "fields": fields}]}, "payload": message}


def test_a_column_that_appears_late_in_a_file_is_loaded(log_of):
    log = log_of(source={"path": "events/*.json", "envelope": "debezium"})
    first = [carrying(event("c", n, n), "id") for n in range(1, 501)]
    log.events("1.json", *first, carrying(event("c", 501, 501, name="late"), "id", "name"))
    assert log.loaded().rows_read == 501
    assert {row[1] for row in log.rows() if row[0] == 501} == {"late"}


@pytest.mark.parametrize(("table", "elsewhere"), [(None, {"table": "items"}), ("orders", {"schema": "archive"})])
def test_events_of_two_tables_are_refused_in_one_load_and_in_two(log_of, table, elsewhere):
    envelope = {"kind": "debezium", "columns": {"id": "bigint"}} | ({"table": table} if table else {})
    log = log_of(source={"path": "events/*.json", "envelope": envelope})
    log.events("1.json", event("c", 10, 1))
    log.loaded()
    other = event("t" if table else "c", 11, 1)
    other["source"] |= elsewhere
    log.events("2.json", other)
    error = str(log.run().error)
    assert "it is not of table shop.public.orders, as the others are; name one in full with `table:`" in error
    log.events("2.json", other, event("c", 12, 2))
    assert "it is not of table shop.public.orders" in str(log.run().error)
    assert log.rows() == [(1,)]


def test_a_truncate_of_one_table_of_a_pattern_takes_no_row_of_the_others(log_of):
    envelope = {"kind": "debezium", "columns": {"id": "bigint"}, "table": "public.order*"}
    log = log_of(source={"path": "events/*.json", "envelope": envelope})
    other, emptied = event("c", 11, 2), event("t", 12, None)
    other["source"]["table"] = "orders_2"
    log.events("1.json", event("c", 10, 1), other)
    log.loaded()
    log.events("2.json", {**emptied, "before": None}, event("c", 13, 3))
    stopped = log.run().error
    assert (stopped.code, "`truncate: ignore`" in stopped.message) == ("check_failed", True)
    assert log.rows() == [(1,), (2,)]
    log.loaded(options={"truncate": "ignore"})
    assert log.rows() == [(1,), (2,), (3,)]


@pytest.mark.parametrize("table", [None, "public.orders"])
def test_events_are_decoded_once_to_be_applied_and_once_to_be_proven(log_of, monkeypatch, table):
    found, folded = [], merge.folded

    def counted(rows, plan, batch):
        gathered = LatestEventsSpec(columns=plan.columns, key=plan.key, fence=Fence()).gathered(rows)
        steps = re.split(r"\n[ :]*[+:]- ", gathered._jdf.queryExecution().optimizedPlan().toString())
        found.append([(step.split()[0], step.count("from_json(")) for step in steps if "from_json(" in step])
        return folded(rows, plan, batch)

    monkeypatch.setattr(merge, "folded", counted)
    envelope = {"kind": "debezium", "columns": COLUMNS} | ({"table": table} if table else {})
    log = log_of(source={"path": "events/*.json", "envelope": envelope})
    row = {"name": "m", "price": "AMg=", "total": "3.50", "seen": 1_700_000_000_000_000, "on": 19_000}
    log.events("1.json", event("c", 10, 1, **row), event("c", 11, 2, **row), {"op": "m", "message": {"prefix": "x"}})
    assert log.loaded().rows_read == 2
    log.events("2.json", event("d", 20, 1), event("u", 21, 2, **{**row, "name": "new"}))
    assert log.loaded().rows_read == 2
    assert [(each[0], each[1], str(each[2]), str(each[3])) for each in log.rows()] == [(2, "new", "2.00", "3.50")]
    assert found == [[("Project", 1), ("Project", 1)]] * 4, "the message, and a row that is JSON in a text"
