"""The metrics of a project as OpenMetrics text: from the registry alone, which is opened read-only and asked seldom."""

from __future__ import annotations

import functools
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from tidegate.config import Config
from tidegate.core.ports.format import Format
from tidegate.engine.assemble.assemble import recorded_place
from tidegate.engine.overview import recorded
from tidegate.engine.run import utc_now
from tidegate.errors import ConfigError, RegistryError, WriteError
from tidegate.registry.facts import RunFacts
from tidegate.registry.reader import RegistryReader
from tidegate.registry.values import StreamStatus
from tidegate.telemetry.names import COLLECTED, METRICS, STREAM_LABELS, Kind, Metric
from tidegate.telemetry.samples import Sample, samples
from tidegate.telemetry.tables import table_samples

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
LONGEST_AGE = 10.0
"""Seconds for which one answer is given again, however often somebody asks."""
ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


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
