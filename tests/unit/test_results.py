"""What Python users hold: typed, documented, looked up by name, readable, raised on demand."""

import inspect
import traceback
import typing
from datetime import UTC, datetime

import pytest

from tidegate import Project, RunReport, results
from tidegate.core.display import Shown
from tidegate.core.outcome import Outcome, Problem, Result
from tidegate.errors import ConfigError, DeleteFuse, VerifyFailed
from tidegate.results import Level, Verification, VerificationReport

NOW = datetime(2025, 3, 1, 9, tzinfo=UTC)
LOADED = Outcome(stream="orders", outcome=Result.LOADED, strategy="watermark", rows_read=1200, verified=True)
STOPPED = Outcome(
    stream="<b>",
    outcome=Result.STOPPED,
    strategy="full",
    error=Problem(code="delete_fuse", message="9 rows are gone", hint="Look at them.", exit_code=4),
)


def report(*streams):
    return RunReport(run_id="r", started_at=NOW, finished_at=NOW, streams=streams)


def test_every_type_that_a_project_returns_is_public_and_resolves():
    returned = set()
    for name, member in inspect.getmembers(Project):
        if name.startswith("_") or not (inspect.isfunction(member) or isinstance(member, property)):
            continue
        hints = typing.get_type_hints(member.fget if isinstance(member, property) else member)
        kinds = [hints["return"], *typing.get_args(hints["return"])]
        returned |= {kind for kind in kinds if getattr(kind, "__module__", "").startswith("tidegate")}
    public = {getattr(results, name) for name in results.__all__}
    internal = {"Stream"}
    assert {kind.__name__ for kind in returned - public} <= internal
    for value in filter(inspect.isclass, public):
        assert typing.get_type_hints(value) is not None
        assert value.__doc__


def test_results_read_as_text_and_as_a_table():
    text = str(report(LOADED, STOPPED))
    assert [line.split()[:4] for line in text.splitlines()] == [
        ["stream", "outcome", "strategy", "rows"],
        ["orders", "loaded", "watermark", "1,200"],
        ["<b>", "stopped", "full", "0"],
    ]
    assert "delete_fuse: 9 rows are gone" in text
    page = report(LOADED, STOPPED)._repr_html_()
    assert "<td>1,200</td>" in page
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert str(report()) == "no streams"
    assert "rows read         1,200" in str(LOADED)


def test_every_public_value_is_readable():
    plain = {
        "Attention",
        "Level",
        "Proven",
        "Result",
        "Problem",
        "Backfills",
        "States",
        "Quarantined",
        "Interval",
        "PlannedSlice",
        "Identifiers",
    }
    for name in set(results.__all__) - plain - {"ChecksumTask", "StreamTasks"}:
        kind = getattr(results, name)
        assert issubclass(kind, Shown | results.StreamReport), name


def test_a_report_is_looked_up_by_the_name_of_a_stream():
    found = report(LOADED, STOPPED)
    assert found["orders"] is LOADED
    assert ([each.stream for each in found], len(found)) == (["orders", "<b>"], 2)
    with pytest.raises(KeyError, match="did you mean 'orders'"):
        found["order"]


def test_a_report_raises_the_error_of_its_first_failed_stream():
    assert report(LOADED).ok
    assert report(LOADED).raise_on_failure()["orders"].rows_read == 1200
    failed = report(LOADED, STOPPED)
    assert (failed.ok, failed.exit_code) == (False, 4)
    with pytest.raises(DeleteFuse, match="9 rows are gone") as caught:
        failed.raise_on_failure()
    shown = "".join(traceback.format_exception(caught.value))
    assert "hint: Look at them." in shown, "a traceback says what to do"


def test_a_table_that_differs_from_its_source_is_a_failure_too():
    equal = Verification(stream="a", level="counts", equal=True, source_rows=2, target_rows=2)
    other = Verification(stream="b", level="counts", equal=False, source_rows=2, target_rows=3)
    assert VerificationReport(streams=(equal,)).ok
    found = VerificationReport(streams=(equal, other))
    assert found.exit_code == 3
    with pytest.raises(VerifyFailed, match="2 rows at the source, 3 in the table"):
        found.raise_on_failure()


VALUES = {
    "registry": "sqlite:///registry.db",
    "connections": {"shop": "postgresql://app:${ABSENT_PASSWORD}@127.0.0.1:1/shop"},
    "streams": {
        "orders": {
            "source": {"connection": "shop", "table": "orders"},
            "target": "lake.shop.orders",
            "strategy": "full",
            "write": "replace",
        }
    },
}


def test_what_only_reads_needs_no_credentials_of_a_source(tmp_path):
    with Project.from_dict(VALUES, folder=tmp_path) as project:
        assert [each.last_run_id for each in project.status()] == [None]
        assert (project.history("orders"), project.tasks("orders"), project.tasks()) == ([], [], [])
        assert project.lateness("orders").loads == 0
        assert project.intervals("orders").parts == ()
        assert project.state.show("orders").agree
        for needs in (project.plan, project.run, project.verify):
            with pytest.raises(ConfigError, match="ABSENT_PASSWORD, which is not set"):
                needs("orders")
        assert "ABSENT_PASSWORD" in project.check()[0].problems[0]
        with pytest.raises(ConfigError, match="'nothing' is not a stream"):
            project.history("nothing")


def test_a_level_is_a_word_or_a_member(tmp_path):
    with Project.from_dict({**VALUES, "connections": {"shop": "sqlite:///absent.db"}}, folder=tmp_path) as project:
        for level in ("counts", Level.COUNTS):
            assert project.verify("orders", level=level)["orders"].level == "counts"
        with pytest.raises(ConfigError, match="it must be one of counts, checksum, rows"):
            project.verify("orders", level="all")


def test_the_defaults_of_a_connection_without_credentials_still_count(tmp_path):
    shop = {"url": VALUES["connections"]["shop"], "defaults": {"write": {"kind": "${WRITER:-replace}"}}}
    stream = {name: value for name, value in VALUES["streams"]["orders"].items() if name != "write"}
    values = {**VALUES, "connections": {"shop": shop}, "streams": {"orders": stream}}
    with Project.from_dict(values, folder=tmp_path) as project:
        assert project.history("orders") == []


def test_a_log_names_the_database_whose_credentials_are_absent(tmp_path):
    connections = {**VALUES["connections"], "broker": {"kafka": "127.0.0.1:1"}}
    source = {
        "connection": "broker",
        "topic": "shop.public.orders",
        "envelope": "debezium",
        "database": "shop",
        "table": "orders",
    }
    stream = {"source": source, "target": "lake.shop.orders", "key": ["id"], "strategy": "cdc", "write": "merge"}
    values = {**VALUES, "connections": connections, "streams": {"orders": stream}}
    with Project.from_dict(values, folder=tmp_path) as project:
        assert "ABSENT_PASSWORD" in project.check()[0].problems[0]
