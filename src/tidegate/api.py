"""The Python API: a project, and a method for each command of the command line.

Never starts Spark for a call that moves no rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

from tidegate import config
from tidegate.alerts.watching import watching
from tidegate.config import Config, Opening
from tidegate.core.bounds import back
from tidegate.core.bucketing import Level
from tidegate.core.intervals import Intervals
from tidegate.core.lateness import Lateness
from tidegate.core.policies.maintenance import Version
from tidegate.core.ports.format import Format
from tidegate.core.report import RunReport
from tidegate.engine.assemble import assemble
from tidegate.engine.assemble.assemble import TableLocation
from tidegate.engine.assemble.check import CheckedStream, check_streams
from tidegate.engine.assemble.doctor import Finding, examine
from tidegate.engine.assemble.selection import Choice, Selectors
from tidegate.engine.assemble.sessions import sessions
from tidegate.engine.attention import Attention
from tidegate.engine.backfill.backfill import Backfills
from tidegate.engine.checksum_tasks import ChecksumTasks, Identifiers, Scope, checksum_tasks
from tidegate.engine.context import RunContext
from tidegate.engine.events import Listener, ignore
from tidegate.engine.maintenance import rollback as rollbacks
from tidegate.engine.maintenance.maintain import UpkeepReport, maintain_streams
from tidegate.engine.maintenance.rollback import RolledBack
from tidegate.engine.overview import overview, recorded
from tidegate.engine.positions import States, look
from tidegate.engine.preview import PlanReport, preview
from tidegate.engine.proof import ProofReport, proof
from tidegate.engine.reconcile import holds_rows
from tidegate.engine.replay import Quarantined
from tidegate.engine.run import new_run_id, run_streams, utc_now
from tidegate.engine.savings import SavingsReport, savings
from tidegate.engine.stream import Stream
from tidegate.engine.table_states import table_rows, table_states
from tidegate.engine.table_view import TableView, view
from tidegate.engine.verify import VerificationReport, level_of, verify_streams
from tidegate.engine.watch import WatchResult, watch_streams
from tidegate.errors import ConfigError
from tidegate.registry.store import Registry
from tidegate.registry.values import RunRecord, StreamStatus, TaskRecord
from tidegate.spark.session import Sessions, SessionsOnDemand
from tidegate.telemetry.observers import Observers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Project:
    """A project file and everything that can be done with it.

    Example:
        with Project.load("tidegate.yaml") as project:
            report = project.run("orders")
    """

    def __init__(self, settings: Config, *, spark: SparkSession | None = None) -> None:
        self.config = settings
        self._spark = spark

    @classmethod
    def load(
        cls, path: str | Path = "tidegate.yaml", *, spark: SparkSession | None = None, **opening: Unpack[Opening]
    ) -> Project:
        """The project of a file, or of the `tidegate.yaml` in a folder.

        Args:
            spark: a session to load with; it is neither changed nor stopped.
            opening: `profile` and `trusted`, see `Opening`.

        Raises:
            ConfigError: with file, line and key.
        """
        return cls(config.load(Path(path), **opening), spark=spark)

    @classmethod
    def from_dict(
        cls,
        values: Mapping[str, Any],
        *,
        folder: str | Path = ".",
        spark: SparkSession | None = None,
        **opening: Unpack[Opening],
    ) -> Project:
        """The project of values with the keys of the file; relative paths resolve against `folder`."""
        return cls(config.from_dict(values, Path(folder), **opening), spark=spark)

    def close(self) -> None:
        """Closes what this project opened; a Spark session that was passed in stays open."""
        opened = self.__dict__
        for name, end in (("sessions", "stop"), ("observers", "close"), ("registry", "close")):
            if name in opened:
                getattr(opened.pop(name), end)()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @cached_property
    def registry(self) -> Registry:
        """The registry, opened (and created if needed) on first use."""
        return Registry.open(self.config.registry, redact=self.config.redact)

    @cached_property
    def observers(self) -> Observers:
        """What is told of every stream at work. Raises EnvironmentMissing for an extra that is not installed."""
        return Observers.of(self.config.telemetry)

    @cached_property
    def lakes(self) -> dict[str, Format]:
        """The lakes by name."""
        return assemble.formats(self.config)

    @cached_property
    def sessions(self) -> Sessions:
        """Spark sessions; Spark starts only when rows have to move."""
        return sessions(self.config, self.streams(), self.lakes, self._spark)

    def streams(
        self, *names: str, options: Mapping[str, Any] | None = None, **chosen: Unpack[Selectors]
    ) -> list[Stream]:
        """The streams that are named or selected, else all, without those excluded; patterns are expanded.

        Args:
            chosen: see `Selectors`; the same of every method below.
            options: strategy options for this call only.

        Raises:
            ConfigError: an unknown name, no stream is left, or parts that do not fit.
        """
        return assemble.streams(self.config, self.lakes, self._choice(names, chosen, options))

    @classmethod
    def inspect(cls, path: str | Path = "tidegate.yaml", **opening: Unpack[Opening]) -> Project:
        """The valid part of a file's project; `config.problems` holds what is wrong. Raises ConfigError: no YAML."""
        return cls(config.inspect(Path(path), **opening))

    def check(self, *, source: bool = False) -> list[CheckedStream]:
        """Every stream and its problems; opens a source only to expand a pattern.

        Args:
            source: ask the sources as well: tables, columns, unique keys, privileges. Counts the keys of a source that
                does not enforce them; starts Spark only where nothing else can count them.
        """
        return check_streams(self.config, self.lakes, SessionsOnDemand(lambda: self.sessions) if source else None)

    def plan(
        self,
        *names: str,
        options: Mapping[str, Any] | None = None,
        full_refresh: bool = False,
        **chosen: Unpack[Selectors],
    ) -> PlanReport:
        """What a run would load and why; moves and saves nothing, and does not start Spark."""
        streams, context = self.streams(*names, options=options, **chosen), self._context(full_refresh=full_refresh)
        return PlanReport(streams=tuple(preview(stream, context) for stream in streams))

    def checksum_tasks(
        self, system: str, identifiers: Identifiers | None = None, *, force: bool = False, validate_only: bool = False
    ) -> ChecksumTasks:
        """What a run of a connection's checksum streams would do now; moves nothing and does not start Spark.

        A task is a partition that differs. It is *inserted* when a run would do it, nothing standing in its way; no
        row waits in `tasks` for a run to pick up, since a run asks again and does what it finds then. What was asked
        is kept as one task `get_checksums` a stream, unless `validate_only` or another task of the stream is open.

        Args:
            system: the connection's name.
            identifiers: names of streams, or tables by schema (`{"public": ["sales"]}`).
            force: without identifiers: every checksum stream of the connection.
            validate_only: nothing is written, nothing counts as inserted.

        Raises:
            ConfigError: an unknown name, a stream of another strategy, or no identifiers and no `force`.
        """
        scope = Scope(system=system, identifiers=identifiers, force=force)
        return checksum_tasks(self.config, self.lakes, self._context(), scope, validate_only=validate_only)

    def run(  # noqa: PLR0913 - the options of the command
        self,
        *names: str,
        options: Mapping[str, Any] | None = None,
        parallel: int = 1,
        full_refresh: bool = False,
        allow_deletes: bool = False,
        fail_fast: bool = False,
        on_event: Listener | None = None,
        **chosen: Unpack[Selectors],
    ) -> RunReport:
        """Loads the streams; a stream's error is part of the report, never an exception.

        Args:
            options: strategy options for this run only: `{"lookback": "LAST_3_DAYS"}`.
            parallel: streams to load in parallel.
            full_refresh: read every row again and replace the table's rows.
            allow_deletes: allow any number of deletes in this run (`deletes: {max_fraction: …}`); recorded.
            fail_fast: start no more streams after the first failure.
            on_event: called at the start and end of every stage.

        Raises:
            ConfigError: an unknown name, or parts that do not fit; nothing ran.
            RegistryError: the registry cannot be opened; nothing ran.
        """
        if parallel < 1:
            raise ConfigError(f"parallel is {parallel}, it must be 1 or more", hint="Try --parallel 2.")
        streams = self.streams(*names, options=options, **chosen)
        return run_streams(
            streams,
            self._context(full_refresh=full_refresh, allow_deletes=allow_deletes),
            listener=on_event or ignore,
            parallel=parallel,
            fail_fast=fail_fast,
        )

    def verify(
        self,
        *names: str,
        level: Level | str = Level.CHECKSUM,
        repair: bool = False,
        allow_deletes: bool = False,
        on_event: Listener | None = None,
        **chosen: Unpack[Selectors],
    ) -> VerificationReport:
        """Compares whole tables with their sources; a stream's error is part of the report, never an exception.

        Args:
            level: `counts`, `checksum` (fingerprints), or `rows` (down to the rows that differ).
            repair: reload the rows that differ, delete surplus rows, and verify them.
            allow_deletes: let the repair delete any number of rows (`deletes: {max_fraction: …}`); recorded.
            on_event: called while streams are compared and repaired.

        Raises:
            ConfigError: an unknown name or level; nothing was compared.
        """
        level, streams = level_of(level), self.streams(*names, **chosen)
        context = self._context(allow_deletes=allow_deletes)
        return verify_streams(streams, context, level, repair=repair, listener=on_event)

    def maintain(
        self,
        *names: str,
        dry_run: bool = False,
        force: bool = False,
        allow_deletes: bool = False,
        on_event: Listener | None = None,
        **chosen: Unpack[Selectors],
    ) -> UpkeepReport:
        """Keeps tables small and fast, and drops what `retain:` does not keep. Errors are part of the report.

        Args:
            dry_run: only report what would be done; takes no lease and does not start Spark.
            force, allow_deletes: run every step that has something to do; let `retain:` drop any number of rows.
        """
        streams, context = self.streams(*names, **chosen), self._context(allow_deletes=allow_deletes)
        return maintain_streams(streams, context, force=force, dry_run=dry_run, listener=on_event)

    def watch(
        self,
        *names: str,
        every: timedelta | None = None,
        parallel: int = 1,
        tell: Callable[[WatchResult], None],
        **chosen: Unpack[Selectors],
    ) -> None:
        """Runs the streams when they are due, until SIGINT or SIGTERM; from the main thread only.

        `every` is for streams without a `schedule:`; `tell` is called after every run.
        """
        streams, context = self.streams(*names, **chosen), self._context()
        with watching(self.config, self.lakes, self.registry, tell) as after_run:
            watch_streams(streams, context, every=every, parallel=parallel, tell=after_run)

    def resync(self, name: str, *, replace: bool = False, on_event: Listener | None = None) -> RunReport:
        """Reloads a stream whose source no longer continues what was loaded, by comparing and repairing its table.

        Args:
            replace: replace the table with what is read; a log without a table is read from its beginning.
        """
        context = self._context(full_refresh=replace, resync=not replace)
        return run_streams([self._one(name)], context, listener=on_event or ignore)

    def rollback(self, name: str, to: str) -> RolledBack:
        """Rolls the stream's table back to an older version, together with its position.

        Args:
            to: a version's id, or a time in ISO 8601. Raises VersionGone: no longer kept; nothing was changed.
        """
        return rollbacks.rollback(self._one(name), self._context(), to)

    def versions(self, name: str) -> Sequence[Version]:
        """The versions of the stream's table that are kept, newest first."""
        return rollbacks.versions(self._one(name))

    @property
    def backfills(self) -> Backfills:
        """Backfills: reload ranges of a source while regular loads continue."""
        return Backfills(self._one, self._context())

    def filled(self, *names: str, **chosen: Unpack[Selectors]) -> list[str]:
        """The names of the streams whose table has rows, which a full refresh would replace."""
        return [one.name for one in self.streams(*names, **chosen) if holds_rows(one.format.state(one.target, one.uid))]

    def status(self, *names: str, **chosen: Unpack[Selectors]) -> list[StreamStatus]:
        """Every stream, also those that never ran; what does not answer is named in `problem` or `lag_error`."""
        return overview(self.config, self.lakes, self.registry, utc_now(), self._choice(names, chosen))

    def proof(self, *names: str, **chosen: Unpack[Selectors]) -> ProofReport:
        """Which tables are proven equal to their sources, when and at which level; sources are not asked."""
        streams = self._recorded(names, chosen)
        return proof(self.registry, streams, table_states(self.lakes, streams), utc_now())

    def savings(self, *names: str, days: int = 30, **chosen: Unpack[Selectors]) -> SavingsReport:
        """What the runs of the last days read, against a full reload in place of each; asks tables for their rows."""
        streams = self._recorded(names, chosen)
        return savings(self.registry, streams, table_rows(self.lakes, streams), back(utc_now(), timedelta(days=days)))

    def show(self, name: str) -> TableView:
        """The stream's table: columns, layout, size, versions, and how to read it; from its metadata, without Spark."""
        return view(self._place(name), self.config)

    def intervals(self, name: str) -> Intervals:
        """The stream's interval ledger: done, empty, unverified, stale or failed."""
        return self.registry.intervals(self._place(name).uid)

    def lateness(self, name: str, limit: int = 1000) -> Lateness:
        """How late the stream's rows arrive, as measured by its last runs."""
        runs = [run.details or {} for run in self.history(name, limit)]
        return Lateness.of(run["arrivals"] for run in runs if run.get("arrivals"))

    def history(self, name: str, limit: int = 20) -> list[RunRecord]:
        """The stream's last runs, newest first."""
        return self.registry.history(self._place(name).uid, limit)

    def tasks(self, name: str | None = None, limit: int = 100) -> list[TaskRecord]:
        """The last tasks, newest first."""
        return self.registry.tasks(self._place(name).uid if name else None, limit=limit)

    def quarantine(self, *names: str, **chosen: Unpack[Selectors]) -> Quarantined:
        """Lists, shows and replays rows that failed a check and were not loaded."""
        return Quarantined(streams=self.streams(*names, **chosen), context=self._context())

    @property
    def attention(self) -> Attention:
        """Pauses and resumes the schedule of streams, and acknowledges errors."""
        return Attention(stream=self._one, registry=self.registry)

    @property
    def state(self) -> States:
        """Shows positions and changes them by hand."""
        return States(self.streams, self._context, lambda name: look(self._place(name), self.registry))

    def doctor(self, *, fetch: bool = False, on_fetch: Callable[[str], None] = lambda _: None) -> list[Finding]:
        """Tests everything that a run needs; each problem comes with the command that fixes it.

        Args:
            fetch: also fetch missing jars, and remove class archives of environments that are gone.
            on_fetch: takes a line for each step of that.
        """
        return examine(self.config, self.lakes, fetch=on_fetch if fetch else None)

    def _choice(self, names: tuple[str, ...], chosen: Selectors, options: Mapping[str, Any] | None = None) -> Choice:
        return Choice.of_texts(names, chosen, options=options or {}, statuses=self.registry.status)

    def _recorded(self, names: tuple[str, ...], chosen: Selectors) -> list[StreamStatus]:
        found = recorded(self.config, self.lakes, self.registry.status(), utc_now())
        return self._choice(names, chosen).among([status for status, _ in found], self.config.streams)

    def _one(self, name: str) -> Stream:
        return self.streams(name)[0]

    def _place(self, name: str) -> TableLocation | Stream:
        """The table of a stream; opens the source only if the stream comes from a pattern."""
        return assemble.place(self.config, self.lakes, name) or self._one(name)

    def _context(self, *, full_refresh: bool = False, allow_deletes: bool = False, resync: bool = False) -> RunContext:
        return RunContext(
            registry=self.registry,
            sessions=self.sessions,
            run_id=new_run_id(),
            now=utc_now,
            full_refresh=full_refresh,
            allow_deletes=allow_deletes,
            resync=resync,
            redact=self.config.redact,
            observers=self.observers.asked,
        )
