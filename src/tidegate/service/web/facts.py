"""What pages show of the streams, asked of the registry and the project file alone: no source, table or log."""

from __future__ import annotations

import fnmatch
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from threading import Lock

from tidegate.config import StreamConfig
from tidegate.core.display import short_duration
from tidegate.core.health import Health
from tidegate.engine.overview import recorded, recorded_stream
from tidegate.registry.values import StreamStatus
from tidegate.service.web.port import ServicePort

FRESH = 1.0
"""Seconds for which what was asked serves further requests."""
DAYS = 14
PAGE = 50
ORDER = (Health.ACTION_REQUIRED, Health.ERROR, Health.DELAYED, Health.RUNNING, Health.PAUSED, Health.ON_TIME)
"""What needs a person comes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One stream of the project."""

    status: StreamStatus
    entry: StreamConfig

    @property
    def name(self) -> str:
        return self.status.stream

    @property
    def health(self) -> Health:
        """Its state against its schedule."""
        return Health(self.status.health or Health.ON_TIME)

    @property
    def schedule(self) -> str:
        """As the project writes it."""
        return str(self.entry.schedule or "none")

    def age(self, now: datetime) -> str:
        at = self.status.last_success_at
        return "never" if at is None else f"{short_duration(now - at)} ago"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFilter:
    """Which streams a page shows, as the address says it."""

    search: str = ""
    tag: str = ""
    health: str = ""
    sort: str = "state"
    page: int = 1

    @classmethod
    def of(cls, asked: Mapping[str, str]) -> StreamFilter:
        """Of an address; what makes no sense counts as not said."""
        number = asked.get("page", "1")
        return cls(
            search=asked.get("q", "").strip()[:200],
            tag=asked.get("tag", "")[:200],
            health=asked.get("state", ""),
            sort=asked.get("sort", "state"),
            page=max(int(number), 1) if number.isdecimal() and len(number) < 7 else 1,
        )

    def among(self, lines: Sequence[Line]) -> list[Line]:
        """The lines that are meant, in order."""
        text = self.search.lower()
        found = [
            line
            for line in lines
            if (not text or text in line.name.lower() or fnmatch.fnmatchcase(line.name.lower(), text))
            and (not self.tag or self.tag in line.entry.tags)
            and (not self.health or self.health == line.health)
        ]
        never = datetime.min.replace(tzinfo=UTC)
        if self.sort == "name":
            return sorted(found, key=lambda line: line.name)
        if self.sort == "freshness":
            return sorted(found, key=lambda line: line.status.last_success_at or never)
        return sorted(found, key=lambda line: (ORDER.index(line.health), line.name))


@dataclass(slots=True)
class Facts:
    """The streams of a service, asked at most once a second."""

    service: ServicePort
    _lock: Lock = field(default_factory=Lock)
    _asked: float = -FRESH
    _lines: tuple[Line, ...] = ()

    def lines(self) -> tuple[Line, ...]:
        """Every stream, in the project's order."""
        with self._lock:
            if time.monotonic() - self._asked >= FRESH:
                project, known = self.service.project, self.service.registry.status(with_gaps=False)
                found = recorded(project.config, project.lakes, known, datetime.now(UTC))
                self._lines = tuple(Line(status=status, entry=entry) for status, entry in found)
                self._asked = time.monotonic()
            return self._lines

    def line(self, name: str) -> Line | None:
        project, registry = self.service.project, self.service.registry
        found = recorded_stream(project.config, project.lakes, registry, name, datetime.now(UTC))
        return None if found is None else Line(status=found[0], entry=found[1])

    def forget(self) -> None:
        """After an action: the next page shows what it did."""
        with self._lock:
            self._asked = -FRESH


def last_days(now: datetime) -> list[date]:
    """The days that a sparkline shows, oldest first."""
    return [now.date() - timedelta(days=back) for back in range(DAYS - 1, -1, -1)]
