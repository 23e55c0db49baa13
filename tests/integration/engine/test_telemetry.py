"""Traces and lineage of real loads, read by an endpoint that parses OTLP and validates events by the specification."""

import sqlite3
from contextlib import closing

import pytest

from support.lineage_endpoint import endpoint, facets, validate
from tidegate import Project

pytestmark = [pytest.mark.spark, pytest.mark.slow]

STAGES = ["detect", "plan", "read", "check", "write", "verify", "advance"]


@pytest.mark.parametrize("form", ["iceberg", "delta"])
def test_a_load_is_traced_and_its_lineage_told(form, spark, tmp_path, monkeypatch):
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT, amount INTEGER)")
        shop.executemany("INSERT INTO orders VALUES (?, ?)", [(n, 10 * n) for n in range(1, 6)])
        shop.commit()
    with endpoint() as got:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", got.url)
        monkeypatch.setenv("OPENLINEAGE_URL", got.url)
        with Project.from_dict(project(form), folder=tmp_path, spark=spark) as loaded:
            first = loaded.run("orders").raise_on_failure()["orders"]
            change(tmp_path, "INSERT INTO orders VALUES (6, 60), (7, 70)")
            second = loaded.run("orders").raise_on_failure()["orders"]
            unchanged = loaded.run("orders").raise_on_failure()["orders"]
            change(tmp_path, "INSERT INTO orders VALUES (8, -1)")
            stopped = loaded.run("orders")["orders"]
            loaded.verify("orders", level="counts")
    assert (first.rows_inserted, second.rows_inserted, unchanged.rows_read) == (5, 2, 0)
    assert stopped.error is not None
    for event in got.events:
        validate(event)
    _traced(got)
    _told(got.events, first, second)


def project(form):
    return {
        "lakes": {"lake": {"format": form, "warehouse": "warehouse"}},
        "connections": {"shop": "sqlite:///shop.db"},
        "streams": {
            "orders": {
                "source": {"connection": "shop", "table": "orders"},
                "target": "lake.shop.orders",
                "key": ["id"],
                "strategy": {"kind": "sequence", "column": "id"},
                "write": "append",
                "checks": [{"expression": "amount >= 0"}],
            }
        },
    }


def change(folder, statement):
    with closing(sqlite3.connect(folder / "shop.db")) as shop:
        shop.execute(statement)
        shop.commit()


def _traced(got):
    roots = [span for span in got.spans if not span.parent_span_id]
    assert [root.name for root in roots] == ["tidegate.run"] * 4 + ["tidegate.verify"]
    below = {
        root.span_id: [span.name.removeprefix("tidegate.") for span in got.spans if span.parent_span_id == root.span_id]
        for root in roots
    }
    first, second, unchanged, stopped, verified = (below[root.span_id] for root in roots)
    assert first == STAGES
    assert second == STAGES
    assert unchanged == ["detect"]
    assert stopped == ["detect", "plan", "read", "check"]
    assert verified == ["verify"]
    assert [root.status.code for root in roots] == [0, 0, 0, 2, 0]
    for root in roots:
        for span in got.spans:
            if span.parent_span_id == root.span_id:
                assert root.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano
                assert span.end_time_unix_nano <= root.end_time_unix_nano


def _told(events, first, second):
    kinds = [(event["eventType"], event["job"]["name"]) for event in events]
    loads = [("START", "orders"), ("COMPLETE", "orders")] * 3 + [("START", "orders"), ("FAIL", "orders")]
    assert kinds == [*loads, ("START", "orders.verify"), ("COMPLETE", "orders.verify")]
    assert len({event["run"]["runId"] for event in events}) == 5
    one, two, nothing, failed = events[1], events[3], events[5], events[7]
    told = facets(two)
    assert facets(one)["version"]["datasetVersion"] == first.snapshot
    assert told["version"]["datasetVersion"] == second.snapshot
    assert (told["inputStatistics"]["rowCount"], told["outputStatistics"]["rowCount"]) == (2, 2)
    condition = told["subset"]["inputCondition"]
    assert [condition[side]["comparison"] for side in ("left", "right")] == ["GREATER_THAN", "LESS_EQUAL_THAN"]
    assert [condition[side]["right"]["value"] for side in ("left", "right")] == ["5", "7"]
    assert [field["name"] for field in told["schema"]["fields"]] == ["id", "amount"]
    assert {name: field["inputFields"][0]["field"] for name, field in told["columnLineage"]["fields"].items()} == {
        "id": "id",
        "amount": "amount",
    }
    assert [(each["assertion"], each["success"]) for each in told["dataQualityAssertions"]["assertions"]] == [
        ("expression", True)
    ]
    assert "subset" not in facets(nothing)
    assert facets(nothing)["outputStatistics"]["rowCount"] == 0
    assert [each["success"] for each in facets(failed)["dataQualityAssertions"]["assertions"]] == [False]
    assert facets(failed)["errorMessage"]["message"].startswith("check_failed")
    assert one["outputs"][0]["name"] == two["outputs"][0]["name"]
    assert one["outputs"][0]["namespace"] == "file"
