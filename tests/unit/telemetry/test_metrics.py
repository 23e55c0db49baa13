"""Metrics tell what was measured and nothing else, and their counters only grow."""

from __future__ import annotations

import json
import os
import re
import stat
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from sqlalchemy import create_engine, text

from tidegate.api import Project
from tidegate.core.outcome import Outcome, Problem, Result
from tidegate.engine.assemble import assemble
from tidegate.errors import ConfigError, RegistryError, WriteError
from tidegate.registry.store import Registry
from tidegate.registry.values import Status
from tidegate.telemetry.metrics import (
    LONGEST_AGE,
    METRICS,
    STREAM_LABELS,
    Metrics,
    refuse_name,
    sample_names,
    write_textfile,
)

ROOT = Path(__file__).parents[3]
ODD = 'größe "x"\\y\nz{}'
SECRET = "hunter2-secret"


def project(folder, *names, schedule="1h"):
    streams = {
        name: {
            "source": {"connection": "shop", "table": f"t{number}"},
            "target": ["lake", "shop", f"t{number}"],
            "strategy": "full",
            "write": "replace",
            "schedule": {"every": schedule},
        }
        for number, name in enumerate(names)
    }
    values = {"connections": {"shop": {"url": f"postgresql://app:{SECRET}@127.0.0.1:1/shop"}}, "streams": streams}
    return Project.from_dict(values, folder=folder)


def places(opened):
    return [assemble.place_of(entry, opened.lakes) for entry in opened.config.streams]


def ended(opened, registry, outcome, run):
    (place,) = [each for each in places(opened) if each.name == outcome.stream]
    registry.register(uid=place.uid, name=place.name, source="shop: t", target=str(place.target))
    registry.start_run(run, place.uid)
    registry.finish_run(run, outcome)
    return place.uid


def loaded(stream="orders", **changed):
    made = Outcome(stream=stream, outcome=Result.LOADED, strategy="full", rows_read=10, rows_inserted=10)
    return replace(made, seconds={"detect": 0.5, "write": 2.0, "total": 3.0}, bytes_read=96, **changed)


def failed(stream="orders", code="source"):
    return Outcome(
        stream=stream, outcome=Result.FAILED, strategy="full", error=Problem(code=code, message="m", hint="h")
    )


def samples(text):
    """Samples by name, as Prometheus's own parser reads them: labels and values."""
    found = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def value(found, name, **labels):
    (only,) = [number for known, number in found[name] if labels.items() <= known.items()]
    return only


def metrics_of(opened):
    return Metrics(config=opened.config, lakes=opened.lakes)


def render(opened, **options):
    return samples(Metrics(config=opened.config, lakes=opened.lakes, **options).render())


def test_a_run_is_told_by_its_measures(tmp_path):
    opened = project(tmp_path, "orders")
    with opened.registry as registry:
        ended(opened, registry, loaded(table_rows=40, rows_updated=2), "r1")
        found = render(opened)
    assert value(found, "tidegate_rows_total", kind="inserted", stream="orders", target="lake.shop.t0") == 10
    assert value(found, "tidegate_rows_total", kind="deleted") == 0
    assert value(found, "tidegate_runs_total", outcome="loaded") == 1
    assert value(found, "tidegate_stage_seconds_total", stage="write") == 2
    assert value(found, "tidegate_run_seconds_total") == 3
    assert value(found, "tidegate_change_detection_time_seconds") == 0.5
    assert value(found, "tidegate_changed_records_percent") == 30
    assert value(found, "tidegate_stream_state", state="on_time") == 1
    assert sum(number for _, number in found["tidegate_stream_state"]) == 1
    assert 0 <= value(found, "tidegate_freshness_seconds") < 60
    assert not any(
        "stage" in labels and labels["stage"] == "total" for labels, _ in found["tidegate_stage_seconds_total"]
    )


def test_what_was_not_measured_is_absent(tmp_path):
    opened = project(tmp_path, "orders", "other")
    with opened.registry as registry:
        ended(opened, registry, loaded(), "r1")
        found = render(opened)
    told = {name for name, known in found.items() for labels, _ in known if labels.get("stream") == "other"}
    assert told == {"tidegate_stream_state", "tidegate_running"}
    unmeasured = ("changed_records_percent", "new_partitions_created", "compaction_savings_bytes", "log_behind")
    unmeasured += ("query_performance_improvement_percent", "verification_equal", "verification_differences")
    assert not {f"tidegate_{name}" for name in unmeasured} & set(found)


def test_counters_grow_over_restarts_and_by_every_kind_of_end(tmp_path):
    opened, before = project(tmp_path, "orders"), {}
    for number, outcome in enumerate([loaded(), failed(), failed(code="check_failed"), loaded(rows_deleted=3)]):
        with Registry.open(opened.config.registry) as registry:
            ended(opened, registry, outcome, f"r{number}")
        found = {
            (name, *sorted(labels.items())): amount
            for name, known in render(opened).items()
            if name.endswith("_total")
            for labels, amount in known
        }
        assert all(found[key] >= amount for key, amount in before.items())
        before = found
    found = render(opened)
    assert value(found, "tidegate_runs_total", outcome="failed") == 2
    assert value(found, "tidegate_failures_total", code="source") == 1
    assert value(found, "tidegate_checks_failed_total") == 1
    assert value(found, "tidegate_rows_total", kind="inserted") == 20


def test_a_run_counts_once_and_a_crashed_one_too(tmp_path):
    opened = project(tmp_path, "orders")
    with opened.registry as registry:
        uid = ended(opened, registry, loaded(), "r1")
        registry.finish_run("r1", loaded())
        registry.start_run("r2", uid)
        registry.close_crashed(uid)
        registry.close_crashed(uid)
        found = render(opened)
    assert value(found, "tidegate_runs_total", outcome="loaded") == 1
    assert value(found, "tidegate_runs_total", outcome="failed") == 1
    assert value(found, "tidegate_failures_total", code="crashed") == 1


def test_runs_of_an_older_registry_count(tmp_path):
    opened = project(tmp_path, "orders")
    with opened.registry as registry:
        ended(opened, registry, loaded(), "r1")
        ended(opened, registry, failed(), "r2")
        kept = render(opened)
    engine = create_engine(opened.config.registry)
    with engine.begin() as connection:
        connection.execute(text("DROP VIEW ingested_all"))
        for table in ("run_totals", "incidents", "notices", "run_logs", "hooks"):
            connection.execute(text(f"DROP TABLE {table}"))
        for index in ("runs_by_object", "runs_by_outcome", "runs_by_number", "plans_by_time", "tasks_by_kind"):
            connection.execute(text(f"DROP INDEX {index}"))
        for column in ("rows_read", "number"):
            connection.execute(text(f"ALTER TABLE runs DROP COLUMN {column}"))
        connection.execute(text("CREATE INDEX runs_by_outcome ON runs (object_id, outcome, finished_ts)"))
        connection.execute(text("CREATE INDEX runs_by_object ON runs (object_id, started_ts)"))
        connection.execute(text("UPDATE tidegate_version SET version_num = '0009'"))
    engine.dispose()
    with Registry.open(opened.config.registry):
        found = render(opened)
    assert found["tidegate_runs_total"] == kept["tidegate_runs_total"]
    assert found["tidegate_rows_total"] == kept["tidegate_rows_total"]
    assert found["tidegate_stage_seconds_total"] == kept["tidegate_stage_seconds_total"]


@pytest.mark.parametrize(
    ("equal", "back", "told"),
    [(True, "6", None), (True, "7", 1), (False, "6", 0)],
    ids=["another version", "the version that was compared", "a difference"],
)
def test_a_version_that_was_rolled_back_to_is_equal_only_if_it_was_compared(tmp_path, equal, back, told):
    opened = project(tmp_path, "orders")
    with opened.registry as registry:
        uid = ended(opened, registry, loaded(), "r1")

        def task(kind, status=Status.OK, **payload):
            registry.finish_task(registry.start_task(uid, kind), status, payload)

        task("rollback", version="5", load=3)
        task("measure_partition", level="checksum", equal=equal, slices_different=0, snapshot="7")
        task("rollback", status=Status.ERROR, version="5")
        assert value(render(opened), "tidegate_verification_equal") == equal
        task("rollback", version=back, load=6)
        found = render(opened)
        if told is not None:
            assert value(found, "tidegate_verification_equal") == told
            return
        assert not {"tidegate_verification_equal", "tidegate_verification_differences"} & found.keys()
        task("measure_partition", level="checksum", equal=True, slices_different=0, snapshot="6")
        assert value(render(opened), "tidegate_verification_equal") == 1


def test_maintenance_and_comparisons_are_told(tmp_path):
    opened = project(tmp_path, "orders")
    with opened.registry as registry:
        uid = ended(opened, registry, loaded(), "r1")
        table = {"saved": {"bytes": 700}, "query": {"before": 4.0, "after": 1.0}}
        task = registry.start_task(uid, "maintain")
        registry.finish_task(task, Status.OK, {"tables": [table, {"saved": {"bytes": -200}, "query": None}]})
        task = registry.start_task(uid, "measure_partition")
        registry.finish_task(task, Status.OK, {"level": "checksum", "equal": False, "slices_different": 3})
        found = render(opened)
        assert value(found, "tidegate_compaction_savings_bytes") == 500
        assert value(found, "tidegate_query_performance_improvement_percent") == 75
        assert value(found, "tidegate_verification_equal") == 0
        assert value(found, "tidegate_verification_differences") == 3
        assert value(found, "tidegate_maintenance_failed") == 0
        task = registry.start_task(uid, "maintain")
        registry.finish_task(task, Status.ERROR, {"error": {"code": "write"}})
        found = render(opened)
    assert value(found, "tidegate_maintenance_failed") == 1
    assert "tidegate_compaction_savings_bytes" not in found


def test_odd_names_are_labels_and_secrets_are_none(tmp_path):
    opened = project(tmp_path, ODD, f"of {SECRET}")
    with opened.registry as registry:
        ended(opened, registry, loaded(ODD), "r1")
        text_ = Metrics(config=opened.config, lakes=opened.lakes).render()
    streams = {labels["stream"] for labels, _ in samples(text_)["tidegate_running"]}
    assert streams == {ODD, "of ***"}
    assert SECRET not in text_.decode()


def test_every_sample_has_a_name_that_is_listed(tmp_path):
    opened = project(tmp_path, "orders")
    with opened.registry as registry:
        ended(opened, registry, loaded(table_rows=1), "r1")
        found = render(opened)
    assert set(found) <= set(sample_names())
    for metric in METRICS:
        for labels, _ in found.get(metric.name, ()):
            assert set(labels) == {*STREAM_LABELS, *metric.labels}


def test_a_registry_that_is_not_there_is_an_error_and_no_zero(tmp_path):
    metrics = metrics_of(project(tmp_path, "orders"))
    with pytest.raises(RegistryError, match="does not exist"):
        metrics.render()
    assert not (tmp_path / ".tidegate").exists()


def test_an_answer_is_given_again_for_ten_seconds(tmp_path):
    opened = project(tmp_path, "orders")
    with opened.registry as registry:
        ended(opened, registry, loaded(), "r1")
        metrics = Metrics(config=opened.config, lakes=opened.lakes)
        first = metrics.render()
        ended(opened, registry, loaded(), "r2")
        assert metrics.render() is first
        metrics._made -= LONGEST_AGE
        assert value(samples(metrics.render()), "tidegate_runs_total", outcome="loaded") == 2


def test_a_file_is_replaced_at_once_and_everybody_may_read_it(tmp_path):
    path = tmp_path / "tidegate.prom"
    path.write_text("old")
    with path.open() as reader:
        before = os.umask(0o077)
        try:
            write_textfile(path, b"new")
        finally:
            os.umask(before)
        assert reader.read() == "old"
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert [each.name for each in tmp_path.iterdir()] == ["tidegate.prom"]


def test_a_file_that_cannot_be_written_or_would_not_be_read(tmp_path):
    with pytest.raises(WriteError, match="cannot be written"):
        write_textfile(tmp_path / "absent" / "tidegate.prom", b"new")
    with pytest.raises(ConfigError, match=r"only files that end with \.prom"):
        refuse_name(tmp_path / "tidegate.txt")


def test_the_page_lists_every_metric_with_its_meaning():
    page = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(tidegate_\w+)` \| (.+?) \|", page, re.MULTILINE))
    assert list(rows) == list(sample_names())
    for metric in METRICS:
        name = metric.name + ("_total" if metric.kind == "counter" else "")
        assert rows[name] == metric.meaning.rstrip(".")


@pytest.mark.parametrize("file", ["grafana.json", "rules.yml", "rules_test.yml"])
def test_what_dashboard_and_rules_ask_for_exists(file):
    text_ = (ROOT / "docs/prometheus" / file).read_text(encoding="utf-8")
    asked = set(re.findall(r"\btidegate_\w+", text_))
    assert len(asked) > 1
    assert asked <= set(sample_names())


def test_the_dashboard_is_json_with_panels():
    board = json.loads((ROOT / "docs/prometheus/grafana.json").read_text(encoding="utf-8"))
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"]) > 10


def test_freshness_is_counted_to_the_time_of_the_question(tmp_path):
    opened = project(tmp_path, "orders")
    with opened.registry as registry:
        ended(opened, registry, loaded(), "r1")
        metrics = replace(
            Metrics(config=opened.config, lakes=opened.lakes), now=lambda: datetime.now(UTC) + timedelta(hours=3)
        )
        found = samples(metrics.render())
    assert 3 * 3600 <= value(found, "tidegate_freshness_seconds") < 3 * 3600 + 60
    assert value(found, "tidegate_stream_state", state="error") == 1
