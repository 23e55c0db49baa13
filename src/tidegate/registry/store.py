"""The registry's API: each call is one transaction, on SQLite or PostgreSQL.

The source of truth for a position is not the registry, but the table's own commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from tidegate.core.ledger import Ledger
from tidegate.core.manifest import File, Manifest
from tidegate.core.outcome import Outcome
from tidegate.core.plan import LoadPlan
from tidegate.core.position import Position
from tidegate.core.secret_names import without_logins
from tidegate.errors import RegistryError
from tidegate.registry import attention, checksums, files, hooks, journal, logs, positions, streams
from tidegate.registry.backfills import Backfills
from tidegate.registry.database import Database
from tidegate.registry.incidents import Incidents
from tidegate.registry.leases import TTL, Lease
from tidegate.registry.logs import KeptLog
from tidegate.registry.migrate import ensure_schema
from tidegate.registry.owner import this_process
from tidegate.registry.positions import Evidence
from tidegate.registry.reader import RegistryReader
from tidegate.registry.streams import Stamp
from tidegate.registry.values import Discontinued, PlanStatus, SavedPlan, Status


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Registry(RegistryReader):
    """Records streams, positions, plans, runs, tasks and leases; safe for many threads and processes at once.

    Every call is one transaction. Every failure of the database is a RegistryError with a hint.
    """

    def __init__(self, database: Database, *, clock: Callable[[], datetime] = _utc_now) -> None:
        super().__init__(database)
        self._clock = clock
        self.redact: Callable[[str], str] = without_logins

    @classmethod
    def open(cls, url: str, *, redact: Callable[[str], str] = without_logins) -> Self:
        """A registry whose schema is this version's; folder, file and schema are made if absent.

        Args:
            redact: takes the project's secrets out of the errors of tasks.

        Raises:
            ConfigError: neither SQLite nor PostgreSQL.
            RegistryUnavailable: unreachable or locked; a retry may help.
            RegistryError: damaged, not permitted, wrong password, or written by a newer version. Nothing was touched.

        Example:
            >>> import tempfile
            >>> with tempfile.TemporaryDirectory() as folder, Registry.open(f"sqlite:///{folder}/r.db") as registry:
            ...     registry.register(uid="a1b2", name="orders", source="shop: orders", target="lake.shop.orders")
            1
        """
        opened = cls._opened(Database(url), ensure_schema)
        opened.redact = redact
        return opened

    # Streams and positions

    def register(self, *, uid: str, name: str, source: str, target: str) -> int:
        """The stream's `object_id`, the same for ever; the texts are brought up to date and must hold no secret."""
        texts = {"object_name": name, "source": source, "target": target}
        with self._database.write() as connection:
            return streams.register(connection, uid, texts, self._clock())

    @property
    def backfills(self) -> Backfills:
        """Backfills and how far they are."""
        return Backfills(self._database, self._clock)

    @property
    def incidents(self) -> Incidents:
        """Incidents that people are told of, and messages until they are sent."""
        return Incidents(self._database, self._clock)

    def mark_discontinued(self, uid: str, mark: Discontinued | None) -> None:
        """Keeps that the source was restored to before the stream's position; None once that holds no longer."""
        with self._database.write() as connection:
            positions.mark_discontinued(connection, uid, mark)

    def advance(
        self, load: LoadPlan | SavedPlan, *, snapshot: str | None, table_uuid: str | None, verified: bool | None
    ) -> None:
        """The registry catches up with a load that was published: position, plan and log, all or nothing.

        The position moves only from the load's `since`. Again for the same load it does nothing, but a late
        `verified=True` is recorded.

        Raises:
            PositionMoved: the stream is no longer at `since`; nothing changed.
        """
        evidence = Evidence(snapshot=snapshot, table_uuid=table_uuid, verified=verified)
        with self._database.write() as connection:
            positions.advance(connection, load, evidence, self._stamp())

    def verified(self, uid: str, position: Position, *, after: str | None = None) -> None:
        """The table, at this position, was proven equal to its source; nothing if the stream is at another position.

        Args:
            after: only rows above this value of the cursor were looked at.
        """
        with self._database.write() as connection:
            positions.verified(connection, uid, position, self._clock(), after=after)

    def set_position(  # noqa: PLR0913 - the facts of one recorded decision
        self,
        uid: str,
        position: Position | None,
        *,
        snapshot: str | None,
        table_uuid: str | None,
        reason: str,
        expected_sequence: int | None = None,
        changed_by: str | None = None,
        verified: bool | None = None,
        vouched: bool = False,
    ) -> None:
        """The position becomes this one, None for none, and `status_change_log` keeps the reason.

        `sequence` in the registry never goes down by it. `expected_sequence` is the one of the present position,
        0 for none, None for whichever it is. `verified` is kept as it was where the position is the same. `vouched`
        says that a person vouches for the source to continue from it: what was kept to the contrary is dropped.

        Raises:
            PositionMoved: the stream is not at the expected position; nothing changed.
        """
        evidence = Evidence(snapshot=snapshot, table_uuid=table_uuid, verified=verified)
        stamp = self._stamp(changed_by)
        with self._database.write() as connection:
            positions.set_position(
                connection,
                uid,
                position,
                evidence,
                stamp,
                expected_sequence=expected_sequence,
                reason=reason,
                vouched=vouched,
            )

    # Partitions

    def record(self, uid: str, change: tuple[str, str], *, reason: str | None, by: str | None = None) -> None:
        """One row of the stream's `status_change_log`: from the first to the second."""
        with self._database.write() as connection:
            streams.log(connection, streams.lock(connection, uid), change, self._stamp(by), reason=reason)

    def keep_ledger(
        self,
        uid: str,
        method: Mapping[str, Any],
        found: Ledger,
        *,
        filters: Mapping[str, tuple[str, str]] | None = None,
    ) -> None:
        """The stream's partitions are these: measured in the table, or proven by its position.

        Args:
            filters: each partition, by its label, in the words of source and table.
        """
        with self._database.write() as connection:
            checksums.keep(connection, uid, method, (found, filters or {}), self._clock())

    def keep_quick(self, uid: str, hashes: Mapping[str, str]) -> None:
        """The quick hash, by label, of partitions whose fingerprint is the one that was loaded."""
        with self._database.write() as connection:
            checksums.keep_quick(connection, uid, hashes)

    # Files

    def keep_manifest(self, uid: str, found: Manifest) -> None:
        """The stream's files are these: the table's position vouches for them."""
        with self._database.write() as connection:
            files.keep(connection, uid, found, self._clock())

    def set_files_back(self, uid: str, position: Position) -> None:
        """The stream's files are those of this earlier position, where the loads up to it tell them."""
        with self._database.write() as connection:
            files.set_back(connection, streams.lock(connection, uid), position, self._clock())

    def stamp_files(self, uid: str, found: Iterable[File]) -> None:
        """Until when the hash of these files, which are as they were, holds without reading them."""
        with self._database.write() as connection:
            files.stamp(connection, uid, found)

    # Hooks

    def begin_hook(self, uid: str, hook_id: str, label: str) -> None:
        """Records that a hook is about to run: it stays due until it succeeds."""
        with self._database.write() as connection:
            hooks.begin(connection, uid, hook_id, label)

    def hook_succeeded(self, uid: str, hook_id: str, load_id: str) -> None:
        with self._database.write() as connection:
            hooks.succeeded(connection, uid, hook_id, load_id, self._clock())

    def hook_failed(self, uid: str, hook_id: str, error: Mapping[str, Any]) -> None:
        """The hook did not succeed; `error` holds no secret."""
        with self._database.write() as connection:
            hooks.failed(connection, uid, hook_id, error, self._clock())

    def keep_hooks(self, uid: str, hook_ids: Iterable[str]) -> None:
        """The stream has no other hooks than these."""
        with self._database.write() as connection:
            hooks.keep_only(connection, uid, set(hook_ids))

    # What people said of streams

    def pause(self, uid: str, by: str | None = None) -> None:
        """Schedules leave the stream out from now on; one that is paused stays as it is."""
        with self._database.write() as connection:
            attention.pause(connection, uid, self._stamp(by))

    def resume(self, uid: str, by: str | None = None) -> None:
        with self._database.write() as connection:
            attention.resume(connection, uid, self._stamp(by))

    def acknowledge(self, uid: str, by: str | None = None) -> None:
        """A person has seen how the stream's last run ended; nothing if it ended well or never ran."""
        with self._database.write() as connection:
            attention.acknowledge(connection, uid, self._stamp(by))

    # Plans

    def save_plan(self, plan: LoadPlan, run_id: str) -> None:
        """The plan outlives a crash from here on."""
        with self._database.write() as connection:
            positions.save_plan(connection, plan, run_id, self._clock())

    def finish_plan(self, load_id: str, status: PlanStatus) -> None:
        """The plan ended like this; the same again is nothing.

        Raises:
            RegistryError: it is PUBLISHED, which is final.
        """
        with self._database.write() as connection:
            positions.finish_plan(connection, load_id, status, self._clock())

    # Runs and tasks

    def start_run(self, run_id: str, uid: str) -> None:
        """The run is kept as running; one row for each stream of a run."""
        with self._database.write() as connection:
            journal.start_run(connection, run_id, uid, self._stamp())

    def finish_run(self, run_id: str, outcome: Outcome) -> None:
        """The run of the outcome's stream ended like this."""
        with self._database.write() as connection:
            journal.finish_run(connection, run_id, outcome, self._stamp())

    def keep_log(self, uid: str, run_id: str, lines: Sequence[Mapping[str, Any]], left_out: int = 0) -> None:
        """The log of a run so far, see `KeptLog`; without secrets; those of the newest runs of a stream stay."""
        with self._database.write() as connection:
            logs.keep(connection, uid, run_id, KeptLog(lines=lines, left_out=left_out), self._clock())

    def start_task(
        self, uid: str, task_type: str, *, run_id: str | None = None, extract_group_id: str | None = None
    ) -> int:
        """The `task_id` of a task that is RUNNING from now on, and with it the slice it names."""
        work = {"task_type": task_type, "run_id": run_id}
        with self._database.write() as connection:
            return journal.start_tasks(connection, uid, work, [extract_group_id], self._stamp())[0]

    def finish_task(self, task_id: int, status: Status, payload: Mapping[str, Any] | None = None) -> None:
        """The task and its slice ended like this; the payload holds JSON types, no secret, no value of a row."""
        with self._database.write() as connection:
            journal.finish_tasks(connection, {task_id: payload}, status, self._stamp())

    @contextmanager
    def task(
        self,
        uid: str,
        task_type: str,
        *,
        run_id: str | None = None,
        groups: Sequence[str | None] = (None,),
        facts: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Iterator[dict[str, Any]]:
        """One task a group as long as the block: all of them end as it does, and share what it puts into the payload.

        Args:
            facts: what the payload of a group also holds if all went well.
        """
        with self._database.write() as connection:
            work = {"task_type": task_type, "run_id": run_id}
            numbers = journal.start_tasks(connection, uid, work, groups, self._stamp())
        payload: dict[str, Any] = {}
        try:
            yield payload
        except BaseException as error:
            said = {key: self.redact(text) for key, text in journal.describe(error).items()}
            result = {**payload, "error": said}
            # An unreachable registry must not hide the error itself; `close_crashed` then ends the tasks.
            with suppress(RegistryError):
                self._finish_tasks(dict.fromkeys(numbers, result), Status.ERROR)
            raise
        known = facts or {}
        own = [{**payload, **known.get(group or "", {})} for group in groups]
        self._finish_tasks(dict(zip(numbers, own, strict=True)), Status.OK)

    def _finish_tasks(self, payloads: Mapping[int, Mapping[str, Any]], status: Status) -> None:
        with self._database.write() as connection:
            journal.finish_tasks(connection, payloads, status, self._stamp())

    def close_crashed(self, uid: str, *, keep_run: str | None = None) -> int:
        """Every run and task of the stream that never ended becomes an error, `keep_run` excepted; how many did.

        Call it with the stream's lease in hand: only then is nobody else still running.
        """
        with self._database.write() as connection:
            return journal.close_crashed(connection, uid, keep_run, self._stamp())

    # Leases

    def lease(self, uid: str, *, ttl: timedelta = TTL) -> Lease:
        """The right to work on a stream for the length of a `with` block; see `Lease`."""
        return Lease(self._database, uid, ttl=ttl)

    def _stamp(self, by: str | None = None) -> Stamp:
        return Stamp(at=self._clock(), by=by or str(this_process()))
