"""What the registry answers; nothing here writes. The writing interface is `registry.store.Registry`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Self, TypeVar

from sqlalchemy import Connection

from tidegate.core.intervals import Intervals
from tidegate.core.ledger import Ledger
from tidegate.core.manifest import Manifest
from tidegate.registry import attention, checksums, files, hooks, logs, positions, views
from tidegate.registry.database import Database
from tidegate.registry.facts import RunFacts
from tidegate.registry.facts import facts as run_facts
from tidegate.registry.hooks import HookRecord
from tidegate.registry.logs import KeptLog
from tidegate.registry.migrate import require_schema
from tidegate.registry.recent_history import RecentHistory, recent_history
from tidegate.registry.tables import object_info, plans
from tidegate.registry.values import (
    Discontinued,
    PlanStatus,
    RegisteredPosition,
    RunRecord,
    SavedPlan,
    Status,
    StatusChange,
    StreamStatus,
    TaskRecord,
)

T = TypeVar("T")


class RegistryReader:
    """Answers questions about streams, positions, plans, runs and tasks, for programs that only look.

    Every call is one transaction that reads. Every failure of the database is a RegistryError with a hint.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    def open(cls, url: str) -> Self:
        """A registry that exists, opened so that the database itself forbids every write.

        Raises:
            ConfigError: neither SQLite nor PostgreSQL.
            RegistryUnavailable: unreachable or locked; a retry may help.
            RegistryError: absent, damaged, not permitted, wrong password, or of another version.
        """
        return cls._opened(Database(url, read_only=True), require_schema)

    @classmethod
    def _opened(cls, database: Database, prepare: Callable[[Database], None]) -> Self:
        try:
            prepare(database)
        except BaseException:
            database.close()
            raise
        return cls(database)

    def close(self) -> None:
        """Ends every connection; leases must have ended before."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def position(self, uid: str) -> RegisteredPosition | None:
        """Where the stream stood when the registry last saw its table; None when it has no position."""
        with self._database.read() as connection:
            return positions.current(connection, uid)

    def positions(self, uid: str, limit: int = 100) -> list[RegisteredPosition]:
        """The positions the stream had, newest first."""
        with self._database.read() as connection:
            return positions.history(connection, uid, limit)

    def descends(self, uid: str, load_id: str) -> bool:
        """Whether the stream's table was never taken back to before that load, nor replaced since; see `rollback`."""
        with self._database.read() as connection:
            return positions.descends(connection, uid, load_id)

    def discontinued(self, uid: str) -> Discontinued | None:
        """Why the stream's source does not continue its position, as `mark_discontinued` kept it; else None."""
        with self._database.read() as connection:
            return positions.discontinued(connection, uid)

    def last_sequence(self, uid: str) -> int:
        """The greatest sequence the stream ever had, also after its position was cleared; 0 before the first load."""
        with self._database.read() as connection:
            return positions.last_sequence(connection, uid)

    def intervals(self, uid: str) -> Intervals:
        """What is known of the intervals of the stream's cursor; nothing without one."""
        with self._database.read() as connection:
            return views.stream_intervals(connection, uid)

    def ledger(self, uid: str) -> Ledger | None:
        """The stream's partitions as they were loaded; None when none is kept."""
        with self._database.read() as connection:
            return checksums.ledger(connection, uid)

    def is_paused(self, uid: str) -> bool:
        """Whether schedules leave the stream out."""
        with self._database.read() as connection:
            return attention.is_paused(connection, uid)

    def hooks(self, uid: str) -> Mapping[str, HookRecord]:
        """What is known of the stream's hooks, by their identities."""
        with self._database.read() as connection:
            return hooks.of_stream(connection, uid)

    def manifest(self, uid: str) -> Manifest:
        """The stream's files as they were loaded."""
        with self._database.read() as connection:
            return files.manifest(connection, uid)

    def plan(self, load_id: str) -> SavedPlan | None:
        """The saved plan of that load; None when there is none."""
        with self._database.read() as connection:
            return next(iter(positions.find_plans(connection, plans.c.load_id == load_id)), None)

    def open_plans(self, uid: str) -> list[SavedPlan]:
        """The stream's unfinished plans, oldest first: what a crash left behind."""
        with self._database.read() as connection:
            return positions.find_plans(connection, object_info.c.uid == uid, plans.c.status_cd == PlanStatus.PLANNED)

    def ask(self, question: Callable[[Connection], T]) -> T:
        """The answer to a question of `registry.recent`, in one transaction that reads."""
        with self._database.read() as connection:
            return question(connection)

    def run(self, uid: str, run_id: str) -> RunRecord | None:
        """One run of the stream; None when there is none."""
        with self._database.read() as connection:
            return next(iter(views.history(connection, uid, 1, run_id=run_id)), None)

    def log(self, uid: str, run_id: str) -> KeptLog:
        """The log of one run of the stream; without lines where none is kept."""
        with self._database.read() as connection:
            return logs.of_run(connection, uid, run_id)

    def status(self, *, with_gaps: bool = True, stream: str | None = None) -> list[StreamStatus]:
        """Every stream, by name.

        Args:
            with_gaps: with what each table lacks.
            stream: only those of this name: one, or more where its table was moved.
        """
        with self._database.read() as connection:
            return views.status(connection, with_gaps=with_gaps, stream=stream)

    def facts(self) -> dict[str, RunFacts]:
        """What metrics and alerts know of every stream, by its uid."""
        with self._database.read() as connection:
            return run_facts(connection)

    def recent_history(self, *, queries: bool = False, quarantines: Collection[str] = ()) -> dict[str, RecentHistory]:
        """What alerts ask of the last hours of every stream, by its uid; of queries and quarantines only on request."""
        with self._database.read() as connection:
            return recent_history(connection, queries=queries, quarantines=quarantines)

    def history(self, uid: str, limit: int = 20) -> list[RunRecord]:
        """The stream's last runs, newest first."""
        with self._database.read() as connection:
            return views.history(connection, uid, limit)

    def tasks(
        self, uid: str | None = None, status: Status | None = None, limit: int = 100, *, task_type: str | None = None
    ) -> list[TaskRecord]:
        """The last tasks, newest first."""
        with self._database.read() as connection:
            return views.task_list(connection, uid, status, limit, task_type=task_type)

    def changes(self, uid: str, limit: int = 100) -> list[StatusChange]:
        """The stream's last changes of status and position, newest first."""
        with self._database.read() as connection:
            return views.changes(connection, uid, limit)
