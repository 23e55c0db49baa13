"""Every metric by name: its kind, its meaning and its own labels; `docs/metrics.md` lists the same."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

STREAM_LABELS = ("project", "stream", "target")
"""The labels that every metric of a stream has."""


class Kind(StrEnum):
    """A gauge goes up and down; a counter only grows, also over restarts."""

    GAUGE = "gauge"
    COUNTER = "counter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric.

    Args:
        name: with its unit; the samples of a counter have `_total` behind it.
        labels: besides those of every stream.
        tables: only with `--tables`, since the tables themselves are asked.
    """

    name: str
    kind: Kind
    meaning: str
    labels: tuple[str, ...] = ()
    tables: bool = False


def _gauge(name: str, meaning: str, *labels: str, tables: bool = False) -> Metric:
    return Metric(name=f"tidegate_{name}", kind=Kind.GAUGE, meaning=meaning, labels=labels, tables=tables)


def _counter(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(name=f"tidegate_{name}", kind=Kind.COUNTER, meaning=meaning, labels=labels)


METRICS: tuple[Metric, ...] = (
    _gauge("last_success_timestamp_seconds", "When the last run ended that loaded or found nothing new."),
    _gauge("freshness_seconds", "Time since the end of the last run that loaded or found nothing new."),
    _gauge("last_run_timestamp_seconds", "When the last run began, however it ended."),
    _gauge("stream_state", "1 for the state of the stream against its schedule, 0 for the others.", "state"),
    _gauge("running", "1 while a process works on the stream."),
    _gauge("log_behind", "What the last good run left in its log, in the log's unit: events, files or bytes."),
    _gauge("verified", "1 if the last load was compared with its source before it became visible and was equal."),
    _counter("runs", "Runs that ended, by outcome.", "outcome"),
    _counter("failures", "Runs that ended with an error, by its code.", "code"),
    _counter("checks_failed", "Runs that were stopped because rows broke a check."),
    _counter("rows", "Rows of all runs, by what happened to them.", "kind"),
    _counter("read_bytes", "Bytes that all runs read from the source."),
    _counter("stage_seconds", "Time that all runs spent, by stage.", "stage"),
    _counter("run_seconds", "Time that all runs took."),
    _gauge("last_run_seconds", "Time that the last good run took."),
    _gauge("last_run_stage_seconds", "Time that the last good run spent, by stage.", "stage"),
    _gauge("last_run_rows", "Rows of the last good run, by what happened to them.", "kind"),
    _gauge("change_detection_time_seconds", "Time that the last good run took to find out what had changed."),
    _gauge("changed_records_percent", "Rows that the last good run changed, of those the table had before."),
    _gauge("new_partitions_created", "Partitions that the last good run loaded for the first time."),
    _gauge("compaction_savings_bytes", "Bytes by which the last maintenance made the visible table smaller."),
    _gauge("query_performance_improvement_percent", "Time that reading the table takes less since it was compacted."),
    _gauge("verification_equal", "1 if table and source were equal when they were last compared as a whole."),
    _gauge("verification_differences", "Parts of the table that differed in the last comparison as a whole."),
    _gauge("maintenance_failed", "1 if the last maintenance of the table failed."),
    _gauge("hooks_failed", "Hooks of `after_publish:` that failed when they were last tried."),
    _gauge("table_rows", "Rows of the table.", tables=True),
    _gauge("table_files", "Data files of the table that every reader opens.", tables=True),
    _gauge("table_bytes", "Bytes of these files.", tables=True),
    _gauge("table_small_files", "Small data files that compacting would merge.", tables=True),
    _gauge("quarantine_rows", "Rows that wait in quarantine.", tables=True),
)
COLLECTED = Metric(
    name="tidegate_collected_timestamp_seconds",
    kind=Kind.GAUGE,
    meaning="When these metrics were collected; older than the scrape by up to ten seconds.",
)
"""The one metric of the project itself."""


def sample_names() -> tuple[str, ...]:
    """The names of all samples, as queries write them."""
    suffix = {Kind.COUNTER: "_total", Kind.GAUGE: ""}
    return (COLLECTED.name, *(each.name + suffix[each.kind] for each in METRICS))
