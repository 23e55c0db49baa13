"""Events as deep as Spark reads them are loaded; what is beyond is refused one by one."""

from __future__ import annotations

import json

import pytest

from support.lake import QUICK
from support.workspace import Workspace
from tidegate.core.log import ORIGIN, PLACE, VALUE
from tidegate.core.schema import BIGINT, Column, Schema
from tidegate.dialects.spark.exact_text import TextRules
from tidegate.sources.change_log import json_lines

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

COLUMNS = {"operation": "text", "sequence": "bigint", "id": "bigint", "held": "json"}


def nested(number, levels):
    held = "[" * levels + "]" * levels
    return f'{{"operation": "I", "sequence": {number}, "id": {number}, "held": {held}}}\n'


def test_events_as_deep_as_spark_reads_them_are_loaded_and_deeper_ones_wait(log_of):
    log = log_of(
        source={"path": "events/*.json", "envelope": "rows", "columns": COLUMNS},
        strategy={"kind": "cdc", "bad_events": "quarantine"},
    )
    levels = {1: 2, 2: 500, 3: 980, 4: 1_200, 5: 100_000}
    log.raw("{1}[a]?*.json", "".join(nested(number, each) for number, each in levels.items()).encode())
    outcome = log.loaded()
    assert (outcome.rows_read, outcome.rows_quarantined) == (5, 2)
    assert {row[0]: row[1].count("[") for row in log.rows()} == {1: 2, 2: 500, 3: 980}


def test_a_number_beyond_a_double_waits_and_an_infinity_that_was_written_does_not(log_of):
    log = log_of(
        source={
            "path": "events/*.json",
            "envelope": {"kind": "debezium", "columns": {"id": "bigint", "price": "double"}},
        },
        strategy={"kind": "cdc", "bad_events": "quarantine"},
    )
    lines = (
        f'{{"before": null, "after": {{"id": {number}, "price": {price}}}, "op": "c", '
        f'"source": {json.dumps({**ORDER, "sequence": json.dumps([str(number), str(number)])})}}}\n'
        for number, price in enumerate(("1e400", "-1e400", "1e308", '"-Infinity"'))
    )
    log.raw("events.json", "".join(lines).encode())
    outcome = log.loaded()
    assert (outcome.rows_read, outcome.rows_quarantined) == (4, 2)
    assert log.rows() == [(2, 1e308), (3, float("-inf"))]


LONG = 'é\n"' + "x" * 30_000_000
ORDER = {"connector": "postgresql", "db": "shop", "schema": "public", "table": "orders", "lsn": 10}
WAYS = {"id": "bigint", "price": "decimal(10,2) as bytes", "note": "text"}
# The digits of this price look like a number: only the whole row tells that they are a text, the base64 of -26588.24.
ROW = {"id": 1, "price": "1234", "note": LONG}
EVENTS = {
    "rows": {"operation": "I", "sequence": 1, **ROW, "price": -26588.24, "held": []},
    "debezium": {"before": None, "after": ROW, "source": {**ORDER, "sequence": '["10","10"]'}, "op": "c"},
    "flat": {
        **ROW,
        "__op": "c",
        "__table": "orders",
        "__source_connector": "postgresql",
        "__source_sequence": '["10","10"]',
    },
}


def test_an_event_is_as_long_as_it_is(tmp_path):
    """Spark's parser of JSON takes a string of more than 20 million characters for a broken document unless told."""
    typed = COLUMNS | {"price": "decimal(10,2)", "note": "text"}
    streams = {}
    for kind, event in EVENTS.items():
        envelope = (
            {"envelope": "rows", "columns": typed} if kind == "rows" else {"envelope": {"kind": kind, "columns": WAYS}}
        )
        streams[kind] = {
            "source": {"path": f"events/{kind}.json", **envelope},
            "target": f"lake.shop.{kind}",
            "key": "id",
            "strategy": "cdc",
            "write": "merge",
        }
        (tmp_path / "events").mkdir(exist_ok=True)
        (tmp_path / "events" / f"{kind}.json").write_text(json.dumps(event) + "\n", encoding="utf-8")
    workspace = Workspace(folder=tmp_path)
    workspace.write(streams, connections={}, spark={"conf": {**QUICK, "spark.driver.memory": "4g"}})
    done = workspace.cli("run")
    assert done.returncode == 0, done.stderr
    for kind in EVENTS:
        (row,) = workspace.rows(f"shop.{kind}")
        assert (row["id"], str(row["price"]), len(row["note"])) == (1, "-26588.24", len(LONG)), kind
        assert row["note"] == LONG, kind


def test_a_record_is_parsed_as_often_however_many_fields_a_condition_looks_at(spark):
    def parsings(fields):
        columns = Schema(columns=tuple(Column(name=f"c{number}", type=BIGINT) for number in range(fields)))
        messages = spark.createDataFrame(
            [(bytearray(b'{"c0": 1}'), "file", "line 1")], f"{VALUE} binary, {PLACE} string, {ORIGIN} string"
        )
        found = json_lines.parsed(messages, columns, TextRules())
        return found._jdf.queryExecution().optimizedPlan().toString().count("from_json(")

    assert parsings(2) == parsings(12) > 0
