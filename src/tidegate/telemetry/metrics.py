"""The metrics of a project as OpenMetrics text: from the registry alone, which is opened read-only and asked seldom."""

from __future__ import annotations

import functools
import logging
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from tidegate import plugins
from tidegate.config import Config
from tidegate.core.health import Health
from tidegate.core.policies.maintenance import Maintenance, Step, Upkeep
from tidegate.core.ports.format import Format
from tidegate.engine.assemble.assemble import TableLocation, recorded_place
from tidegate.engine.overview import recorded
from tidegate.engine.quarantine.waiting import waiting_rows
from tidegate.engine.run import utc_now
from tidegate.errors import ConfigError, RegistryError, TidegateError, WriteError
from tidegate.registry.facts import RunFacts
from tidegate.registry.reader import RegistryReader
from tidegate.registry.totals import KINDS
from tidegate.registry.values import StreamStatus

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
LONGEST_AGE = 10.0
"""Seconds for which one answer is given again, however often somebody asks."""
ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


STREAM_LABELS = ("project", "stream", "target")
"""The labels that every metric of a stream has."""


log = logging.getLogger("tidegate")


Sample = tuple[str, tuple[str, ...], float]
"""The metric's name without `tidegate_`, the values of its own labels, and its value."""

CHANGED = ("inserted", "updated", "deleted")
CHECKS = ("check_failed", "duplicate_keys")


def samples(status: StreamStatus, facts: RunFacts, now: datetime) -> Iterator[Sample]:
    """Everything that the registry measured of a stream."""
    yield from _of_status(status, now)
    yield from _of_totals(facts.totals)
    yield from _of_last_run(facts)
    yield from _of_upkeep(facts)


def _of_status(status: StreamStatus, now: datetime) -> Iterator[Sample]:
    if status.last_success_at is not None:
        yield "last_success_timestamp_seconds", (), status.last_success_at.timestamp()
        yield "freshness_seconds", (), max((now - status.last_success_at).total_seconds(), 0)
    if status.last_run_at is not None:
        yield "last_run_timestamp_seconds", (), status.last_run_at.timestamp()
        yield "hooks_failed", (), float(len(status.hooks_failed))
    if status.health is not None:
        for state in Health:
            yield "stream_state", (str(state),), float(state == status.health)
    yield "running", (), float(status.held_by is not None)
    if status.verified is not None:
        yield "verified", (), float(status.verified)


def _of_totals(totals: Mapping[tuple[str, str], float]) -> Iterator[Sample]:
    if not totals:  # no run has ended yet
        return
    labels = {"runs": "runs", "failures": "failures", "seconds": "stage_seconds"}
    for (measure, label), value in totals.items():
        if measure in labels and (measure, label) != ("seconds", "total"):
            yield labels[measure], (label,), value
    yield "run_seconds", (), totals.get(("seconds", "total"), 0)
    yield "read_bytes", (), totals.get(("bytes", "read"), 0)
    yield "checks_failed", (), sum(totals.get(("failures", code), 0) for code in CHECKS)
    for kind in KINDS:
        yield "rows", (kind,), totals.get(("rows", kind), 0)


def _of_last_run(facts: RunFacts) -> Iterator[Sample]:
    last = facts.last
    if last is None:
        return
    seconds = dict(last.get("seconds") or {})
    if "total" in seconds:
        yield "last_run_seconds", (), seconds.pop("total")
    for stage, value in seconds.items():
        yield "last_run_stage_seconds", (stage,), value
    if "detect" in seconds:
        yield "change_detection_time_seconds", (), seconds["detect"]
    for kind in KINDS:
        yield "last_run_rows", (kind,), last.get(f"rows_{kind}", 0)
    before = last.get("table_rows")
    if before:
        yield "changed_records_percent", (), 100 * sum(last.get(f"rows_{kind}", 0) for kind in CHANGED) / before
    if facts.partitions_created is not None:
        yield "new_partitions_created", (), facts.partitions_created
    if _of_a_log(str(last.get("strategy"))) and last.get("log_behind") is not None:
        yield "log_behind", (), last["log_behind"]


def _of_upkeep(facts: RunFacts) -> Iterator[Sample]:
    if facts.maintenance is not None or facts.maintenance_failed is not None:
        yield "maintenance_failed", (), float(facts.maintenance_failed is not None)
    tables: list[Mapping[str, Any]] = list((facts.maintenance or {}).get("tables", ()))
    saved = [table["saved"]["bytes"] for table in tables if table.get("saved")]
    if saved:
        yield "compaction_savings_bytes", (), sum(saved)
    queries = [table["query"] for table in tables if table.get("query")]
    before = sum(each["before"] for each in queries)
    if before:
        after = sum(each["after"] for each in queries)
        yield "query_performance_improvement_percent", (), 100 * (before - after) / before
    if facts.compared is not None:
        yield "verification_equal", (), float(bool(facts.compared["equal"]))
        if "slices_different" in facts.compared:
            yield "verification_differences", (), facts.compared["slices_different"]


@functools.cache
def _of_a_log(kind: str) -> bool:
    """Whether streams of this strategy have a log that they may be behind of; one that is not installed has none."""
    known = kind in plugins.names("strategies")
    return known and bool(getattr(plugins.load("strategies", kind), "applies_events", False))


def table_samples(place: TableLocation, rules: Maintenance, now: datetime) -> Iterator[Sample]:
    """Of a stream's table; nothing of one that does not exist or does not answer."""
    for ask in (partial(_size, rules=rules, now=now), _waiting):
        try:
            found = tuple(ask(place))
        except TidegateError as error:
            log.warning("stream %s: its table is left out of the metrics: %s", place.name, error.code)
            continue
        yield from found


def _size(place: TableLocation, *, rules: Maintenance, now: datetime) -> Iterator[Sample]:
    state = place.format.state(place.target, place.uid)
    if not state.exists:
        return
    if state.rows is not None:
        yield "table_rows", (), state.rows
    facts = place.format.inspection.facts(place.target) if place.format.inspection else None
    if facts is not None and facts.files is not None:
        yield "table_files", (), facts.files
    if facts is not None and facts.bytes is not None:
        yield "table_bytes", (), facts.bytes
    if place.format.maintenance is not None:
        # Orphan files are not looked for: that would list the table's folder.
        upkeep = Upkeep(target=place.target, uid=place.uid, rules=rules, now=now, looked_at=now)
        needs = place.format.maintenance.survey(upkeep)
        yield "table_small_files", (), sum(need.files for need in needs if need.step is Step.COMPACT)


def _waiting(place: TableLocation) -> Iterator[Sample]:
    waiting = waiting_rows(place.format, place.target, place.uid)
    if waiting is not None:
        yield "quarantine_rows", (), sum(waiting.values())


@dataclass(kw_only=True)
class Metrics:
    """The metrics of a project, for one process that is asked again and again; safe for many threads.

    Args:
        tables: ask the tables, too: their size, their small files and what is in quarantine.
        now: the clock.
    """

    config: Config
    lakes: Mapping[str, Format]
    tables: bool = False
    now: Callable[[], datetime] = utc_now
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)
    _kept: bytes = field(default=b"", init=False, repr=False)
    _registry: RegistryReader | None = field(default=None, init=False, repr=False)
    _made: float | None = field(default=None, init=False, repr=False)

    def render(self) -> bytes:
        """The text of type `CONTENT_TYPE`, at most ten seconds old; `tidegate_collected_timestamp_seconds` tells.

        Raises:
            RegistryError: the registry is absent, cannot be read, or is of another version.
        """
        with self._lock:
            if self._made is None or time.monotonic() - self._made >= LONGEST_AGE:
                self._kept = exposition(self._samples())
                self._made = time.monotonic()
            return self._kept

    def close(self) -> None:
        """Ends the connection to the registry; the next `render` makes a new one."""
        if self._registry is not None:
            self._registry.close()
        self._registry = None

    def _asked(self) -> tuple[list[StreamStatus], dict[str, RunFacts]]:
        """What the registry knows; a connection that broke is not kept."""
        if self._registry is None:
            self._registry = RegistryReader.open(self.config.registry)
        try:
            return self._registry.status(with_gaps=False), self._registry.facts()
        except RegistryError:
            self.close()
            raise

    def _samples(self) -> Iterator[tuple[tuple[str, ...], Sample]]:
        now = self.now()
        statuses, facts = self._asked()
        yield (), ("collected_timestamp_seconds", (), now.timestamp())
        clean = self.config.redact
        for status, entry in recorded(self.config, self.lakes, statuses, now):
            labels = (clean(self.config.name), clean(status.stream), clean(status.target))
            known = facts.get(status.uid, RunFacts())
            yield from ((labels, sample) for sample in samples(status, known, now))
            place = recorded_place(status, self.lakes) if self.tables and status.sequence else None
            if place is not None:
                yield from ((labels, sample) for sample in table_samples(place, entry.maintenance, now))


def exposition(found: Iterable[tuple[tuple[str, ...], Sample]]) -> bytes:
    """OpenMetrics text of samples, each with the labels of its stream; `()` for the project's own."""
    by_name: dict[str, list[str]] = {}
    own_labels = {each.name: each.labels for each in METRICS}
    # Of a thousand streams most samples share their texts: each is made once.
    of_stream = functools.cache(lambda labels: _labels(STREAM_LABELS, labels))
    of_sample = functools.cache(lambda full, own: _labels(own_labels.get(full, ()), own))
    for labels, (name, own, value) in found:
        full = f"tidegate_{name}"
        text = ",".join(filter(None, (of_stream(labels), of_sample(full, own))))
        by_name.setdefault(full, []).append(f"{{{text}}} {value:.16g}" if text else f" {value:.16g}")
    lines = [line for each in (COLLECTED, *METRICS) if each.name in by_name for line in _family(each, by_name)]
    return "".join(f"{line}\n" for line in (*lines, "# EOF")).encode()


def _family(metric: Metric, samples: Mapping[str, list[str]]) -> Iterator[str]:
    yield f"# HELP {metric.name} {metric.meaning}"
    yield f"# TYPE {metric.name} {metric.kind}"
    name = f"{metric.name}_total" if metric.kind is Kind.COUNTER else metric.name
    for sample in samples[metric.name]:
        yield name + sample


def _labels(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    return ",".join(f'{name}="{value.translate(ESCAPED)}"' for name, value in zip(names, values, strict=False))


def write_textfile(path: Path, text: bytes) -> None:
    """Replaces the file by the text at once: a reader never sees a part. Everybody may read it.

    Raises:
        WriteError: the folder does not exist or cannot be written.
    """
    temporary = None
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
            os.fchmod(file.fileno(), 0o644)
        Path(temporary).replace(path)
    except OSError as error:
        if temporary is not None:
            with suppress(OSError):
                Path(temporary).unlink()
        raise WriteError(
            f"{path} cannot be written: {error.strerror}",
            hint="Name a file in a folder that this user can write: `tidegate metrics --textfile PATH`.",
        ) from error


def refuse_name(path: Path) -> None:
    """Refuses a file that node_exporter would pass over in silence. Raises ConfigError."""
    if path.suffix != ".prom":
        raise ConfigError(
            f"--textfile names {path.name!r}, and node_exporter reads only files that end with .prom",
            hint="Name it `tidegate.prom`.",
        )


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
