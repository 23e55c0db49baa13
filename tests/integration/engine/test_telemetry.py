"""Traces and lineage of real loads, read by an endpoint that parses OTLP and validates events by the specification."""

import pytest

from support.lineage_endpoint import endpoint, facets, validate

pytestmark = [pytest.mark.spark]

STAGES = ["detect", "plan", "read", "check", "write", "verify", "advance"]


def test_a_load_is_traced_and_its_lineage_told(bench, monkeypatch):
    bench.sql("CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, amount INTEGER)")
    bench.sql("INSERT INTO t VALUES (1, 10), (2, 20), (3, 30), (4, 40), (5, 50)")
    bench.write({"kind": "sequence", "column": "id"}, "append", checks=[{"expression": "amount >= 0"}])
    with endpoint() as got:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", got.url)
        monkeypatch.setenv("OPENLINEAGE_URL", got.url)
        first = bench.loaded()
        bench.sql("INSERT INTO t VALUES (6, 60), (7, 70)")
        second = bench.loaded()
        bench.unchanged()
        bench.sql("INSERT INTO t VALUES (8, -1)")
        bench.refused()
        bench.verify(level="counts")
    assert (first.rows_inserted, second.rows_inserted) == (5, 2)
    for event in got.events:
        validate(event)
    _traced(got)
    _told(got.events, first, second)


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
    loads = [("START", "t"), ("COMPLETE", "t")] * 3 + [("START", "t"), ("FAIL", "t")]
    assert kinds == [*loads, ("START", "t.verify"), ("COMPLETE", "t.verify")]
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
