"""Lists the partitions that a checksum run would load now, and what prevents it from loading them.

Never starts Spark, moves rows or leaves tasks for a later run, which decides by what it finds itself.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from tidegate.config import Config
from tidegate.core.changes import Action, Part
from tidegate.core.display import Shown, counted
from tidegate.core.ids import join_name, split_name
from tidegate.core.outcome import Problem
from tidegate.core.ports.format import Format
from tidegate.core.spelling import suggest
from tidegate.engine import retention
from tidegate.engine.assemble import assemble
from tidegate.engine.assemble.selection import Choice
from tidegate.engine.context import LoadContext, RunContext
from tidegate.engine.events import Journal
from tidegate.engine.outcome import failure
from tidegate.engine.recovery import recovery
from tidegate.engine.stages import detect
from tidegate.engine.stream import Stream
from tidegate.errors import ConfigError, TidegateError
from tidegate.registry.values import Status

Identifiers = Sequence[str] | Mapping[str, Sequence[str]]
UNKNOWN = "the checksums of the table's partitions are unknown: a run measures them first, and loads only what differs"


class Obstacle(StrEnum):
    """Why a task is not inserted."""

    UNPROFILED_COLUMNS = "unprofiled_columns"
    MAX_PARTITION_EXCEEDED = "max_partition_exceeded"
    EXISTING_TASKS = "existing_tasks"
    VALIDATE_ONLY = "validate_only"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChecksumTask:
    """One partition that differs and what is to be done with it.

    Args:
        extract_group_id: the partition; None where the stream cannot be cut into any.
        action: `LOAD`, `RELOAD` or `DELETE`; None where nobody could tell.
        rows: at the source.
        obstacle: why it is not inserted; None for one that is.
        reason: the same, one sentence for people.
    """

    extract_group_id: str | None
    action: str | None
    rows: int | None
    obstacle: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTasks:
    """The tasks of one stream; with an `error` nobody could ask for them.

    Args:
        skipped: the partitions that were compared and are equal, with the action `SKIP`; they are no tasks.
    """

    stream: str
    tasks: tuple[ChecksumTask, ...] = ()
    skipped: tuple[ChecksumTask, ...] = ()
    notes: tuple[str, ...] = ()
    error: Problem | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotInserted:
    """Tasks that are not inserted, by what stands in their way."""

    unprofiled_columns: int = 0
    max_partition_exceeded: int = 0
    existing_tasks: int = 0
    validate_only: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChecksumTasks(Shown):
    """What a call found: every generated task is inserted, or counted once under what stands in its way."""

    tasks_generated: int
    tasks_inserted: int
    tasks_not_inserted_due_to: NotInserted
    streams: tuple[StreamTasks, ...]

    def to_dict(self) -> dict[str, Any]:
        """JSON types only."""
        values = asdict(self)
        for entry, stream in zip(values["streams"], self.streams, strict=True):
            entry["error"] = stream.error.to_dict() if stream.error else None
        return values


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which streams are meant: those of a connection that are loaded by checksum, or some of them.

    Args:
        identifiers: names of streams, or tables by schema, no table meaning all of them.
        force: without identifiers every table is asked, which has to be said.
    """

    system: str
    identifiers: Identifiers | None = None
    force: bool = False

    def streams(self, config: Config, lakes: dict[str, Format]) -> list[Stream]:
        """In the order of the project.

        Raises:
            ConfigError: an unknown name, a stream of another strategy, or everything without `force`.
        """
        if self.system not in config.connections:
            raise ConfigError(
                f"{self.system!r} is not under `connections:`; {suggest(self.system, config.connections)}",
                hint="Use a connection of the project.",
            )
        if not self.identifiers and not self.force:
            raise ConfigError(
                f"without identifiers, every checksum stream of {self.system!r} reads every row",
                hint="Name streams or tables, or pass force=True.",
            )
        selected = replace(config, streams=tuple(one for one in config.streams if one.connection == self.system))
        found = assemble.streams(selected, lakes, Choice()) if selected.streams else []
        if isinstance(self.identifiers, Mapping):
            found = list(self._of_tables(found, self.identifiers))
        elif self.identifiers:
            names = [self.identifiers] if isinstance(self.identifiers, str) else self.identifiers
            found = _of_names(found, names)
        return [stream for stream in found if stream.strategy.partitions is not None]

    def _of_tables(self, streams: Sequence[Stream], wanted: Mapping[str, Sequence[str]]) -> Iterator[Stream]:
        seen: set[tuple[str, str | None]] = set()
        for stream in streams:
            schema, table = _relation(stream.source_name.removeprefix(f"{self.system}: "))
            for name, tables in wanted.items():
                if schema in (None, name) and (not tables or table in tables):
                    seen |= {(name, table), (name, None)}
                    yield stream
                    break
        asked = {(name, table) for name, tables in wanted.items() for table in (tables or (None,))}
        for schema_asked, asked_for in sorted(asked - seen, key=str):
            raise ConfigError(
                f"no stream of {self.system!r} reads {join_name((schema_asked, asked_for or '*'))}",
                hint="Run `tidegate check`: it lists the streams and their sources.",
            )


def checksum_tasks(
    config: Config, lakes: dict[str, Format], context: RunContext, scope: Scope, *, validate_only: bool
) -> ChecksumTasks:
    """Asks the source of each stream in the scope; see `api.Project.checksum_tasks`."""
    streams = tuple(_of_stream(stream, context, validate_only=validate_only) for stream in scope.streams(config, lakes))
    every = [task for stream in streams for task in stream.tasks]
    counted = Counter(task.obstacle for task in every)
    return ChecksumTasks(
        tasks_generated=len(every),
        tasks_inserted=counted[None],
        tasks_not_inserted_due_to=NotInserted(**{str(reason): counted[reason] for reason in Obstacle}),
        streams=streams,
    )


def _of_stream(stream: Stream, context: RunContext, *, validate_only: bool) -> StreamTasks:
    held = _existing(stream, context)
    try:
        with _recorded(stream, context, record=not validate_only and held is None) as payload:
            found = _asked(stream, context)
            tasks = found.tasks
            if held is not None:
                tasks = _blocked(tasks, Obstacle.EXISTING_TASKS, held)
            if validate_only:
                tasks = _blocked(tasks, Obstacle.VALIDATE_ONLY, "only an answer was requested")
            counted = Counter(task.obstacle or "inserted" for task in tasks)
            payload.update({"tasks_generated": len(tasks), **{f"tasks_{name}": n for name, n in counted.items()}})
    except TidegateError as error:
        return StreamTasks(stream=stream.name, error=failure(stream, error, context.redact).error)
    return replace(found, tasks=tasks)


def _existing(stream: Stream, context: RunContext) -> str | None:
    """Why the stream is taken already; None when nobody works on it."""
    open_tasks = context.registry.tasks(stream.uid, Status.RUNNING, limit=1)
    if open_tasks:
        return f"a task {open_tasks[0].task_type} of the stream is open; a run closes tasks left by a crash"
    known = context.registry.status(with_gaps=False)
    holder = next((each.held_by for each in known if each.uid == stream.uid), None)
    return f"{holder} is working on the stream" if holder else None


def _recorded(stream: Stream, context: RunContext, *, record: bool) -> AbstractContextManager[dict[str, Any]]:
    if not record:
        return contextlib.nullcontext({})
    context.registry.register(uid=stream.uid, name=stream.name, source=stream.source_name, target=str(stream.target))
    return context.registry.task(stream.uid, "get_checksums")


def _asked(stream: Stream, context: RunContext) -> StreamTasks:
    """The partitions that were compared, and what people should know of them."""
    compared = stream.strategy.partitions
    if compared is None:  # the scope holds no others
        return StreamTasks(stream=stream.name)
    table = stream.format.state(stream.target, stream.uid)
    recovered = recovery.found(stream, context, table)
    stream = retention.applied(stream, recovered.since, context)
    with stream.source.probe(context.sessions, stream.bound_request) as probe:
        reason = compared.unpartitioned(probe.schema())
        if reason is not None:
            obstacle = Obstacle.UNPROFILED_COLUMNS
            task = ChecksumTask(extract_group_id=None, action=None, rows=None, obstacle=obstacle, reason=reason)
            return StreamTasks(stream=stream.name, tasks=(task,))
        # A partition that is too large is reported here, not refused.
        asking = replace(stream, strategy=compared.unlimited())
        journal = Journal(stream=stream.name)
        work = LoadContext(stream=asking, context=context, journal=journal, probe=probe, recovered=recovered)
        changes, ledger = detect.detect(work)
        notes = probe.notes()
        if changes is None:
            equal = compared.equal(probe, recovered.since, ledger)
            return StreamTasks(stream=stream.name, skipped=_tasks(equal), notes=notes)
    tasks = _tasks(part for part in changes.parts if part.action is not Action.SKIP)
    large = [task for task in tasks if (task.rows or 0) > compared.max_rows]
    if large:
        too_large = (
            f"partition {large[0].extract_group_id} has {counted(large[0].rows or 0, 'row')}, more than max_rows: "
        )
        tasks = _blocked(tasks, Obstacle.MAX_PARTITION_EXCEEDED, f"{too_large}{compared.max_rows}")
    unknown = (UNKNOWN,) if recovered.loaded is not None and not ledger.entries else ()
    return StreamTasks(
        stream=stream.name,
        tasks=tasks,
        skipped=_tasks(part for part in changes.parts if part.action is Action.SKIP),
        notes=(*notes, *changes.notes, *unknown),
    )


def _tasks(parts: Iterable[Part]) -> tuple[ChecksumTask, ...]:
    return tuple(ChecksumTask(extract_group_id=part.slice.label, action=part.action, rows=part.rows) for part in parts)


def _blocked(tasks: Sequence[ChecksumTask], obstacle: Obstacle, reason: str) -> tuple[ChecksumTask, ...]:
    """Those that nothing else blocks are blocked by this."""
    return tuple(task if task.obstacle else replace(task, obstacle=obstacle, reason=reason) for task in tasks)


def _of_names(streams: Sequence[Stream], names: Sequence[str]) -> list[Stream]:
    known = {stream.name: stream for stream in streams}
    for name in names:
        if name not in known:
            raise ConfigError(
                f"{name!r} is not a stream of that connection; {suggest(name, known)}", hint="Run `tidegate check`."
            )
        if known[name].strategy.partitions is None:
            raise ConfigError(
                f"stream {name!r} is loaded by {known[name].strategy.kind}, which compares no partitions",
                hint="Name streams of `strategy: {kind: checksum}`.",
            )
    return [known[name] for name in dict.fromkeys(names)]


def _relation(text: str) -> tuple[str | None, str]:
    """Schema, None for the connection's own, and table."""
    try:
        *schema, table = split_name(text)
    except ValueError:
        return None, text
    return (join_name(schema) if schema else None), table
