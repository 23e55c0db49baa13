"""The values that are passed through a run: what all streams share, one open stream, one planned load."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from tidegate.core.bucketing import Buckets
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.plan import FULL_REFRESH, LoadPlan, Reset
from tidegate.core.ports.source import Probe
from tidegate.engine.events import Journal, Listener
from tidegate.engine.observers import Command, Observer, Subject, observed
from tidegate.engine.reconcile import RecoveryState
from tidegate.engine.stream import Stream
from tidegate.registry.store import Registry
from tidegate.spark.failures import told_as_lost
from tidegate.spark.job_progress import watched

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidegate.spark.session import Sessions


def _never() -> bool:
    return False


WIDE_ROW = 64 * 1024
"""Bytes on average, from which on a few thousand rows do not lie in memory at once."""
BATCHES = ("spark.sql.iceberg.vectorization.enabled", "spark.sql.parquet.enableVectorizedReader")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """What all streams of a run share.

    Args:
        redact: removes the project's secrets from a text that is stored or shown.
        allow_deletes: this run may delete any number of rows.
        full_refresh: the rows that are read replace those of the table.
        asked_by: the option that asked for a full refresh.
        resync: the rows that are read are compared with those of the table, and the differences are written.
        ended: whether no further load should begin, although more events wait.
        interrupted: whether the run was interrupted; later errors are consequences of that.
        observers: get the events of every stream, in addition to the caller's listener.
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
        """The permission that `--full-refresh` gives: nothing in the table has to be kept."""
        return Reset(asked_by=self.asked_by) if self.full_refresh else None

    @property
    def reads_everything(self) -> bool:
        """Whether this is a full refresh, which reads every row again."""
        return self.full_refresh or self.resync

    def listener(
        self, stream: Stream, command: Command, given: Listener, *, part: str = "", due_at: datetime | None = None
    ) -> Listener:
        """The given listener together with the observers, for one stream; see `Subject`."""
        subject = Subject(stream=stream, run_id=self.run_id, command=command, part=part, due_at=due_at)
        return observed(given, self.observers, subject)

    @contextmanager
    def session(self, *, small: bool = False) -> Iterator[SparkSession]:
        """A separate session, released at the end of the block; see `SparkProvider.load_session`."""
        session = self.sessions.load_session(small=small)
        try:
            with told_as_lost():
                yield session
        finally:
            self.sessions.release(session)

    @contextmanager
    def announced_session(self, journal: Journal, *, small: bool = False) -> Iterator[SparkSession]:
        """The same; the journal reports its start and its jobs."""
        if not self.sessions.ready:
            journal.working("starting Spark")
        with self.session(small=small) as session, watched(session, journal.stream, journal.working):
            yield session

    def save(self, plan: LoadPlan) -> None:
        """Saves the plan, before anything is read."""
        self.registry.save_plan(plan, self.run_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyDiff:
    """How a load looks for keys that were deleted at the source.

    Args:
        rows: how many keys the source has; None if only a window is compared.
        buckets: the buckets by which both sides are compared; None to fetch all keys, or those of the window.
        source: the source's fingerprint of each bucket.
    """

    rows: int | None = None
    buckets: Buckets | None = None
    source: Mapping[str, Fingerprint] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadContext:
    """One stream being loaded, with its source open.

    Args:
        key_diff: how deleted keys are looked for; None if they are not.
    """

    stream: Stream
    context: RunContext
    journal: Journal
    probe: Probe
    recovered: RecoveryState
    key_diff: KeyDiff | None = None

    @contextmanager
    def session(self, *, small: bool = False) -> Iterator[SparkSession]:
        """A separate session for the load, with reports of its jobs; see `RunContext.session`.

        Wide rows are read one by one: a batch of columns has some thousand rows, and each column at most 2 GiB.
        """
        with self.context.announced_session(self.journal, small=small) as session:
            if self.probe.row_bytes >= WIDE_ROW:
                for name in BATCHES:
                    session.conf.set(name, "false")
            yield session


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLoad:
    """A load whose plan is saved, before any row is read.

    Args:
        unique: the source guarantees one row per key.
    """

    plan: LoadPlan
    unique: bool
