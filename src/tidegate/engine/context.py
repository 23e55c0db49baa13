"""The values that are passed through a run: what all streams share, one open stream, one planned load."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from tidegate.core.bucketing import Buckets
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.plan import LoadPlan, Reset
from tidegate.core.ports.source import Probe
from tidegate.engine.events import Journal, Listener
from tidegate.engine.observers import Command, Observer, Subject, observed
from tidegate.engine.reconcile import RecoveryState
from tidegate.engine.stream import Stream
from tidegate.registry.store import Registry
from tidegate.spark.job_progress import watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.spark.session import Sessions


FULL_REFRESH = "--full-refresh"
"""What asks for a full refresh where a person does."""


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """What all streams of a run share.

    Args:
        redact: takes the project's secrets out of a text that is kept or shown.
        allow_deletes: any number of rows may go, this once.
        full_refresh: what is read replaces what the table holds.
        asked_by: what asks for a full refresh.
        resync: what is read is compared with what the table holds, and what differs is written.
        ended: whether no further load is to begin, although more waits.
        interrupted: whether the run was interrupted; what fails from then on fails because of that.
        observers: what is told of every stream at work beside the one who asked for it.
    """

    registry: Registry
    sessions: Sessions
    run_id: str
    now: Callable[[], datetime]
    redact: Callable[[str], str]
    full_refresh: bool = False
    asked_by: str = FULL_REFRESH
    allow_deletes: bool = False
    resync: bool = False
    ended: Callable[[], bool] = _never
    interrupted: Callable[[], bool] = _never
    observers: tuple[Observer, ...] = ()

    @property
    def reset(self) -> Reset | None:
        """What the user's flag allows: nothing that the table holds has to be kept."""
        return Reset(asked_by=self.asked_by) if self.full_refresh else None

    @property
    def reads_everything(self) -> bool:
        """Whether this is a full refresh, which reads every row again."""
        return self.full_refresh or self.resync

    def listener(self, stream: Stream, command: Command, given: Listener, *, part: str = "") -> Listener:
        """What is told of a stream at work: that listener and the observers; see `Subject`."""
        subject = Subject(stream=stream, run_id=self.run_id, command=command, part=part)
        return observed(given, self.observers, subject)

    @contextmanager
    def session(self, *, small: bool = False) -> Iterator[SparkSession]:
        """A session of one's own, ended with the block; see `SparkProvider.load_session`."""
        session = self.sessions.load_session(small=small)
        try:
            yield session
        finally:
            self.sessions.release(session)

    @contextmanager
    def announced_session(self, journal: Journal, *, small: bool = False) -> Iterator[SparkSession]:
        """The same; the journal tells of its start and of its jobs."""
        if not self.sessions.ready:
            journal.working("starting Spark")
        with self.session(small=small) as session, watched(session, journal.stream, journal.working):
            yield session

    def save(self, plan: LoadPlan) -> None:
        """Keeps the plan, before anything is read."""
        self.registry.save_plan(plan, self.run_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyDiff:
    """How keys that are gone are looked for.

    Args:
        rows: keys that the source has; None where only a window is looked at.
        buckets: the buckets that both sides can be compared by; None for fetching all keys, or those of the window.
        source: what the source holds of each bucket.
    """

    rows: int | None = None
    buckets: Buckets | None = None
    source: Mapping[str, Fingerprint] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadContext:
    """One stream being loaded, with its source open.

    Args:
        key_diff: how keys that are gone at the source are looked for; None where nobody does.
    """

    stream: Stream
    context: RunContext
    journal: Journal
    probe: Probe
    recovered: RecoveryState
    key_diff: KeyDiff | None = None

    @contextmanager
    def session(self, *, small: bool = False) -> Iterator[SparkSession]:
        """A session of one's own for the load, whose jobs are told of; see `RunContext.session`."""
        with self.context.announced_session(self.journal, small=small) as session:
            yield session


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLoad:
    """A load that is known before anything moves.

    Args:
        unique: the source guarantees one row a key.
    """

    plan: LoadPlan
    unique: bool
