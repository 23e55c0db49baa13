"""Events as deep as Spark reads them are loaded; what is beyond is refused one by one."""

from __future__ import annotations

import json
import time

import pytest

from support.lake import QUICK
from support.workspace import Workspace

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


LONG = 'é\n"' + "x" * 30_000_000
ORDER = {"connector": "postgresql", "db": "shop", "schema": "public", "table": "orders", "lsn": 10}
WAYS = {"id": "bigint", "price": "decimal(10,2) as bytes", "note": "text"}
# The digits of this price look like a number: only the whole row tells that they are a text, the base64 of -26588.24.
ROW = {"id": 1, "price": "1234", "note": LONG}
EVENTS = {
    "rows": {"operation": "I", "sequence": 1, **ROW, "price": -26588.24},
    "debezium": {"before": None, "after": ROW, "source": {**ORDER, "sequence": '["10","10"]'}, "op": "c"},
    "flat": {
        **ROW,
        "__op": "c",
        "__table": "orders",
        "__source_connector": "postgresql",
        "__source_sequence": '["10","10"]',
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", EVENTS)
def test_an_event_is_as_long_as_it_is(tmp_path, kind):
    """Spark's parser of JSON takes a string of more than 20 million characters for a broken document unless told."""
    source = {"envelope": {"kind": kind, "columns": WAYS}}
    if kind == "rows":
        source = {"envelope": "rows", "columns": COLUMNS | {"price": "decimal(10,2)", "note": "text"}}
        source["columns"].pop("held")
    one = {
        "source": {"path": "events/*.json", **source},
        "target": "lake.shop.orders",
        "key": "id",
        "strategy": "cdc",
        "write": "merge",
    }
    workspace = Workspace(folder=tmp_path)
    workspace.write({"orders": one}, connections={}, spark={"conf": {**QUICK, "spark.driver.memory": "4g"}})
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "1.json").write_text(json.dumps(EVENTS[kind]) + "\n", encoding="utf-8")
    done = workspace.cli("run")
    assert done.returncode == 0, done.stderr
    (row,) = workspace.rows("shop.orders")
    assert (row["id"], str(row["price"]), row["note"]) == (1, "-26588.24", LONG)


def test_a_long_event_takes_hardly_longer_than_a_short_one(log_of):
    """Each record is parsed a few times, not once for every name that a condition on it looks at."""
    log = log_of(source={"path": "events/*.json", "envelope": "rows", "columns": COLUMNS}, strategy="cdc")
    seconds = {}
    for number, (name, length) in enumerate({"first": 1, "short": 1, "long": 3_000_000}.items(), start=1):
        held = json.dumps(["x" * length, 1.5])
        log.raw(
            f"{number}.json", f'{{"operation": "I", "sequence": {number}, "id": {number}, "held": {held}}}\n'.encode()
        )
        began = time.monotonic()
        assert log.loaded().rows_inserted == 1
        seconds[name] = time.monotonic() - began
    assert max(len(row[1]) for row in log.rows()) > 3_000_000
    assert seconds["long"] < 3 * seconds["short"] + 3, seconds
