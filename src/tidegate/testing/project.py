"""Runs loads of one stream in a folder, through the engine itself: what a plugin does in a load, and after a crash."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tidegate.core.compatibility import incompatibilities
from tidegate.core.flavours import flavour_of
from tidegate.core.ids import Target, stream_uid
from tidegate.core.outcome import Outcome
from tidegate.core.policies.deletes import Deletes
from tidegate.core.policies.rules import Rule
from tidegate.core.ports.format import Format
from tidegate.core.ports.source import Source
from tidegate.core.ports.strategy import Strategy
from tidegate.core.ports.writer import Writer
from tidegate.engine.context import RunContext
from tidegate.engine.events import Event, Listener, Moment, Stage, ignore
from tidegate.engine.run import new_run_id, run_stream, utc_now
from tidegate.engine.stream import Policies, Stream
from tidegate.errors import Incompatible
from tidegate.formats.iceberg import Iceberg
from tidegate.spark.session import Sessions
from tidegate.testing.frames import collected
from tidegate.testing.registry import MemoryRegistry
from tidegate.testing.remains import Remains

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TARGET = Target(lake="lake", namespace=("test",), table="rows")


class Crash(BaseException):
    """Ends a load as Ctrl-C does: no handler of ordinary errors sees it."""


def crash_at(boundary: tuple[Stage, Moment]) -> Listener:
    """What ends a run at that boundary when it is told of the run's events; everything is cleaned up on the way out."""

    def end(event: Event) -> None:
        if (event.stage, event.moment) == boundary:
            raise Crash

    return end


@dataclass(slots=True, kw_only=True)
class LocalProject:
    """One stream from a source to a real table in a folder; every load is the engine's own, with all seven stages.

    Args:
        source, strategy, writer: the plugins under test and beside it.
        spark: a session of the caller, as `spark_session` gives one; it is neither changed nor stopped.
        folder: an empty one, for the tables and their catalog.
        key: the key columns; empty for none.
        deletes, checks: as the project file would say them.
        lake: the table format; Iceberg with a catalog in SQLite by default.
        registry: what was recorded; a new one in memory by default.
        now: the time of what is recorded, aware.
    """

    source: Source[Any]
    strategy: Strategy
    writer: Writer
    spark: SparkSession | None
    folder: Path
    key: tuple[str, ...] = ()
    deletes: Deletes = field(default_factory=Deletes)
    checks: tuple[Rule, ...] = ()
    lake: Format | None = None
    now: Callable[[], datetime] = utc_now
    registry: MemoryRegistry = field(default_factory=lambda: MemoryRegistry.new(utc_now))

    format: Format = field(init=False)

    def __post_init__(self) -> None:
        self.format = self.lake or local_iceberg(self.folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.registry.close()

    @property
    def stream(self) -> Stream:
        """The parts, joined.

        Raises:
            Incompatible: they cannot work together, as `tidegate check` would say.
        """
        flavour = flavour_of(self.source)
        reasons = incompatibilities(
            strategy=self.strategy, writer=self.writer, key=self.key, flavour=flavour, deletes=self.deletes
        )
        if reasons:
            raise Incompatible("; ".join(reasons))
        return Stream(
            name="rows",
            uid=stream_uid("rows", TARGET),
            source=self.source,
            source_name=flavour.name,
            target=TARGET,
            format=self.format,
            strategy=self.strategy,
            writer=self.writer,
            key=self.key,
            policies=Policies(deletes=self.deletes, checks=self.checks),
        )

    def run(self, *, on_event: Listener = ignore, full_refresh: bool = False, allow_deletes: bool = False) -> Outcome:
        """One run of the stream; an error is part of the outcome.

        Args:
            on_event: told of every boundary of a stage.
            full_refresh, allow_deletes: the flags of `tidegate run`.
        """
        stream = self.stream
        with self.context() as context:
            flags = replace(context, full_refresh=full_refresh, allow_deletes=allow_deletes)
            return run_stream(stream, flags, on_event)

    @contextmanager
    def context(self) -> Iterator[RunContext]:
        """What functions of the engine take beside the stream, for as long as the block lasts."""
        with Sessions(borrowed=self.spark, lakes=[self.format.spark_conf()]) as sessions:
            yield RunContext(
                registry=self.registry, sessions=sessions, run_id=new_run_id(), now=self.now, redact=lambda text: text
            )

    def load(self, **options: Any) -> Outcome:
        """A run that must not fail.

        Args:
            options: of `run`.

        Raises:
            AssertionError: it did; the message is the error's.
        """
        outcome = self.run(**options)
        if outcome.error is not None:
            raise AssertionError(f"{outcome.error.code}: {outcome.error.message}")
        return outcome

    def rows(self, *names: str) -> list[dict[str, Any]]:
        """The rows that a reader of the table sees, sorted by their text; of these columns, or of all."""
        if not self.format.state(TARGET, "").exists:
            return []
        with self.context() as context:
            read = self.format.read(context.sessions.load_session(), TARGET, None)
            found = collected(read.select(*names) if names else read, f"reading {TARGET}")
        return sorted(found, key=repr)

    @contextmanager
    def killed(self, stage: Stage, moment: Moment) -> Iterator[LocalProject]:
        """What is left of a run that is killed at a boundary: what it cleans up on its way out is put back.

        Yields:
            The project as the next process finds it: tables and registry as they were at that moment, nobody who
            holds a lease, and the same source.

        Raises:
            AssertionError: the run ended before it got there.
        """
        left: list[tuple[Remains, MemoryRegistry]] = []

        def die(event: Event) -> None:
            if not left and (event.stage, event.moment) == (stage, moment):
                left.append((Remains(self.folder), self.registry.copy()))
                raise Crash

        with suppress(Crash):
            self.run(on_event=die)
        if not left:
            raise AssertionError(f"the run ended before {stage} {moment}")
        files, registry = left[0]
        files.put_back()
        with replace(self, registry=registry) as after:
            yield after


def local_iceberg(folder: Path) -> Iceberg:
    """Iceberg tables in a folder, with a catalog in SQLite, as a project without `lakes:` has them."""
    return Iceberg(name=TARGET.lake, warehouse="./warehouse", catalog={"type": "sqlite"}, folder=folder)
