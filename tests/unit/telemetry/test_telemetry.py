"""Traces and lineage of streams whose events are fed by hand: no Spark, a real endpoint."""

import sqlite3
import time
import uuid
from datetime import UTC, datetime

import deltalake
import pyarrow as pa
import pytest
from openlineage.client import OpenLineageClient

from support.lineage_endpoint import endpoint, facets, validate
from tidegate import Project
from tidegate.config.sections import TelemetryOptions
from tidegate.core.outcome import Outcome, Problem, Result
from tidegate.core.slices import Everything, Files, LogRange, Partition, Range
from tidegate.engine.events import Journal, Moment, Stage
from tidegate.engine.observers import Command, Subject, observed
from tidegate.errors import ConfigError
from tidegate.telemetry import facets as made
from tidegate.telemetry import openlineage, opentelemetry
from tidegate.telemetry.observers import Observers

NO_TRACES = TelemetryOptions(opentelemetry=False, openlineage=False)
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
RUN = "1b4e28ba2fa111d2883f0016d3cca427"


@pytest.fixture
def stream(tmp_path):
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, note TEXT)")
    shop.close()
    deltalake.write_deltalake(str(tmp_path / "warehouse" / "shop" / "orders"), pa.table({"id": [1]}))
    project = Project.from_dict(
        {
            "lakes": {"lake": {"format": "delta", "warehouse": "warehouse"}},
            "connections": {"shop": "sqlite:///shop.db"},
            "streams": {
                "orders": {
                    "source": {"connection": "shop", "table": "orders"},
                    "target": "lake.shop.orders",
                    "key": ["id"],
                    "strategy": "full",
                    "write": "replace",
                    "checks": [{"not_null": "note", "on_fail": "warn"}],
                }
            },
        },
        folder=tmp_path,
    )
    return project.streams("orders")[0]


def subject(stream, **more):
    return Subject(stream=stream, run_id=RUN, command=Command.RUN, **more)


def outcome(**more):
    values = {"stream": "orders", "outcome": Result.LOADED, "strategy": "full", "rows_read": 3, "rows_inserted": 3}
    return Outcome(**(values | {"snapshot": "7"} | more))


def told(listener, ended):
    journal = Journal(stream="orders", listener=listener)
    journal.begin()
    with journal.stage(Stage.DETECT):
        time.sleep(0.01)
    with journal.stage(Stage.READ):
        time.sleep(0.01)
    journal.end(ended)


@pytest.fixture
def traces(monkeypatch):
    with endpoint() as got:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", got.url)
        yield got


@pytest.fixture
def lineage(monkeypatch):
    with endpoint() as got:
        monkeypatch.setenv("OPENLINEAGE_URL", got.url)
        yield got


def attributes(span):
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


def test_each_stage_is_a_span_below_that_of_its_stream(traces, stream):
    observer = opentelemetry.opened({"TRACEPARENT": PARENT})
    told(observer(subject(stream)), outcome())
    observer.close()
    spans = {span.name: span for span in traces.spans}
    root = spans["tidegate.run"]
    assert set(spans) == {"tidegate.run", "tidegate.detect", "tidegate.read"}
    assert root.parent_span_id.hex() == "b7ad6b7169203331"
    for name in ("tidegate.detect", "tidegate.read"):
        assert spans[name].parent_span_id == root.span_id
        assert spans[name].trace_id.hex() == "0af7651916cd43dd8448eb211c80319c"
        assert spans[name].end_time_unix_nano - spans[name].start_time_unix_nano >= 9_000_000
        assert root.start_time_unix_nano <= spans[name].start_time_unix_nano
        assert spans[name].end_time_unix_nano <= root.end_time_unix_nano
    assert spans["tidegate.detect"].end_time_unix_nano <= spans["tidegate.read"].start_time_unix_nano
    asked = attributes(spans["tidegate.read"])
    assert asked["db.system.name"] == "sqlite"
    assert asked["db.collection.name"] == "orders"
    assert asked["db.query.summary"] == "SELECT orders"
    assert attributes(root)["tidegate.rows_inserted"] == 3
    assert traces.resources[0]["service.name"] == "tidegate"


def test_an_error_ends_the_stage_that_it_came_in_with_its_code(traces, stream):
    observer = opentelemetry.opened({})
    journal = Journal(stream="orders", listener=observer(subject(stream)))
    journal.begin()
    with journal.stage(Stage.DETECT):
        pass
    journal.tell(Stage.READ, Moment.START)
    problem = Problem(code="source_unavailable", message="no answer", hint="")
    journal.end(outcome(outcome=Result.FAILED, error=problem))
    observer.close()
    spans = {span.name: span for span in traces.spans}
    assert spans["tidegate.read"].status.code == 2
    assert spans["tidegate.detect"].status.code == 0
    assert spans["tidegate.run"].status.message == "source_unavailable: no answer"
    assert attributes(spans["tidegate.run"])["error.type"] == "source_unavailable"


def test_streams_at_once_do_not_mix_their_spans(traces, stream):
    observer = opentelemetry.opened({})
    journals = [Journal(stream="orders", listener=observer(subject(stream))) for _ in range(2)]
    for journal in journals:
        journal.begin()
    for stage in (Stage.DETECT, Stage.READ):
        for journal in journals:
            journal.tell(stage, Moment.START)
        for journal in reversed(journals):
            journal.tell(stage, Moment.DONE)
    for journal in journals:
        journal.end(outcome())
    observer.close()
    roots = {span.span_id: span.trace_id for span in traces.spans if span.name == "tidegate.run"}
    below = [(span.parent_span_id, span.name) for span in traces.spans if span.name != "tidegate.run"]
    assert len(set(roots.values())) == 2
    assert sorted(below) == sorted((root, name) for root in roots for name in ("tidegate.detect", "tidegate.read"))
    assert all(span.trace_id == roots[span.parent_span_id] for span in traces.spans if span.parent_span_id)


def test_events_are_valid_by_the_specification(lineage, stream):
    parent = str(uuid.uuid4())
    environ = {"OPENLINEAGE_NAMESPACE": "prod", "OPENLINEAGE_PARENT_ID": f"air/flow/dag.task/{parent}"}
    observer = openlineage.opened(environ)
    told(observer(subject(stream)), outcome())
    observer.close()
    start, complete = lineage.events
    for event in lineage.events:
        validate(event)
        assert event["job"]["namespace"] == "prod"
        assert event["job"]["name"] == "orders"
        assert facets(event)["parent"]["run"]["runId"] == parent
        assert facets(event)["parent"]["job"]["namespace"] == "air/flow"
        assert event["inputs"][0]["name"] == "orders"
        assert event["inputs"][0]["namespace"].startswith("sqlite:///")
        assert event["outputs"][0]["name"].endswith("/warehouse/shop/orders")
        symlink = facets(event)["symlinks"]["identifiers"][0]
        assert (symlink["name"], symlink["type"]) == ("shop.orders", "TABLE")
    assert (start["eventType"], complete["eventType"]) == ("START", "COMPLETE")
    assert start["run"]["runId"] == complete["run"]["runId"]
    assert facets(complete)["inputStatistics"]["rowCount"] == 3
    assert facets(complete)["outputStatistics"]["rowCount"] == 3
    assert facets(complete)["version"]["datasetVersion"] == "7"


def test_a_scheduled_run_says_when_it_was_due(lineage, stream):
    observer = openlineage.opened({})
    due = datetime(2025, 3, 1, 9, tzinfo=UTC)
    told(observer(subject(stream, due_at=due)), outcome())
    told(observer(subject(stream)), outcome())
    observer.close()
    for event in lineage.events:
        validate(event)
    of_schedule, by_hand = facets(lineage.events[0]), facets(lineage.events[2])
    assert of_schedule["nominalTime"]["nominalStartTime"] == due.isoformat()
    assert "nominalTime" not in by_hand


def test_a_run_that_failed_or_was_interrupted_says_so(lineage, stream):
    observer = openlineage.opened({})
    told(observer(subject(stream)), outcome(outcome=Result.FAILED, error=Problem(code="c", message="m", hint="")))
    listener = observer(subject(stream))
    journal = Journal(stream="orders", listener=listener)
    journal.begin()
    journal.interrupted()
    observer.close()
    assert [event["eventType"] for event in lineage.events] == ["START", "FAIL", "START", "ABORT"]
    for event in lineage.events:
        validate(event)
    failed = facets(lineage.events[1])
    assert failed["errorMessage"]["message"] == "c: m"
    assert "outputStatistics" not in failed


def test_no_load_waits_for_an_endpoint_that_does_not_answer(monkeypatch, stream, caplog):
    with endpoint(delay=60) as got:
        monkeypatch.setenv("OPENLINEAGE_URL", got.url)
        observer = openlineage.Emitter(OpenLineageClient(), {}, longest=0.5)
        for _ in range(20):
            told(observer(subject(stream)), outcome())
        observer.close()
        assert got.events == [], "somebody has waited for the first answer"
    assert "did not take the last events" in caplog.text


def test_an_observer_that_fails_is_left_out_and_told_of_once(stream, caplog):
    seen = []

    def broken(_):
        raise RuntimeError("no")

    told(observed(seen.append, (broken,), subject(stream)), outcome())
    assert seen[-1].moment is Moment.ENDED
    assert caplog.text.count("an observer failed") == 1


def test_nothing_is_observed_unless_it_is_asked_for():
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OPENLINEAGE_URL": "http://127.0.0.1:1"}
    assert Observers.of(TelemetryOptions(), {}).asked == ()
    assert Observers.of(NO_TRACES, environ).asked == ()
    found = Observers.of(TelemetryOptions(openlineage=False), environ)
    assert [type(one).__name__ for one in found.asked] == ["Traces"]
    found.close()


def test_a_protocol_that_is_not_there_is_refused():
    with pytest.raises(ConfigError, match="'grpc'"):
        opentelemetry.opened({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})


def test_what_only_the_environment_asks_for_never_ends_a_load(caplog):
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    assert Observers.of(TelemetryOptions(), environ).asked == ()
    assert "'grpc'" in caplog.text
    with pytest.raises(ConfigError, match="'grpc'"):
        Observers.of(TelemetryOptions(opentelemetry=True), environ)


def subset(*parts):
    found = made.subset(lambda kind, **values: kind(producer="urn:tests", **values), parts)
    return None if found is None else found.inputCondition


def test_the_part_that_was_read_is_told_only_where_a_condition_can_tell_it():
    window = Range(cursor=("id",), after="5", upto="9")
    assert subset(window).operator == "AND"
    assert subset(Range(cursor=("id",), after=None, upto="9")).comparison == "LESS_EQUAL_THAN"
    assert subset(Range(cursor=("id",), after="5", upto="9", nulls=True)) is None
    assert subset(Range(cursor=("a", "b"), after="5", upto="9")) is None
    assert subset(Everything()) is None
    assert subset(window, Partition(column="day", label="x")) is None
    assert subset(Files(paths=("a.csv",)), Files(paths=("b.csv",))).locations == ["a.csv", "b.csv"]
    assert subset(LogRange(part="t:0", after=None, upto="4")).partitions[0].dimensions["upto"] == "4"
    many = [Partition(column="id", label=str(n), low=str(n), high=str(n + 1)) for n in range(2000)]
    assert subset(*many).operator == "OR"
