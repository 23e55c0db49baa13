"""Partitions: the time windows of a stream's cursor, each loaded by a `tidegate backfill` of exactly that range."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any

from dagster import AssetExecutionContext, PartitionsDefinition, TimeWindowPartitionsDefinition

from tidegate.cli.documents import Document
from tidegate.core.backfill import Progress
from tidegate.core.schema import Kind
from tidegate.errors import ConfigError, Incompatible, PlanError, error_of
from tidegate_dagster.project import StreamProps
from tidegate_dagster.runner import Runner

UNITS = {
    Kind.DATE: timedelta(days=1),
    Kind.TIMESTAMP: timedelta(microseconds=1),
    Kind.TIMESTAMPTZ: timedelta(microseconds=1),
}
"""The smallest step of a cursor that can be cut into time windows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A range of time: `begin` belongs to it, `end` does not; both in UTC, without a zone, as cursors are."""

    begin: datetime
    end: datetime

    def __str__(self) -> str:
        return f"{self.begin} to {self.end}"


def refuse_partitions(definition: PartitionsDefinition[Any], streams: Sequence[StreamProps]) -> None:
    """Refuses partitions that no range of these streams stands for.

    Raises:
        Incompatible: other partitions than time windows in UTC, or a stream whose ranges cannot be loaded again.
    """
    if not isinstance(definition, TimeWindowPartitionsDefinition):
        raise Incompatible(
            f"partitions of type {type(definition).__name__} are no ranges of a cursor",
            hint="Use daily, hourly, weekly or monthly partitions, or any TimeWindowPartitionsDefinition.",
        )
    if definition.timezone != "UTC":
        raise Incompatible(
            f"partitions in the time zone {definition.timezone} are no ranges of the cursor, which is in UTC",
            hint='Leave out `timezone`, or use timezone="UTC".',
        )
    for props in streams:
        if not props.takes_partitions:
            raise Incompatible(
                f"stream {props.name!r} cannot be partitioned: a range of it cannot be loaded again (strategy "
                f"{props.stream.strategy.kind}, write {props.stream.writer.kind})",
                hint="Partitions need a strategy with a cursor, such as watermark, and `write: merge` with a `key:`; "
                "give the other streams a `@tidegate_assets` of their own.",
            )


def window_of(context: AssetExecutionContext) -> Window | None:
    """The range of the partitions of a run; None without partitions."""
    if not context.has_partition_key and not context.has_partition_key_range:
        return None
    found = context.partition_time_window
    return Window(begin=_plain(found.start), end=_plain(found.end))


def load_window(runner: Runner, name: str, window: Window, options: dict[str, Any]) -> Iterator[Document]:
    """Loads a window: a run first if the table has not reached its end, then a backfill of the window itself.

    Yields the document of each. Whatever a window holds beyond the last row of the source was looked for by the run.

    Raises:
        TidegateError: the window is not loaded, or not loaded completely.
    """
    through = _through(runner, name, window)
    first = through is None
    if through is None or window.end > through:
        outcome = runner.run(name, options=options)["streams"][0]
        yield outcome
        if outcome["error"]:
            return
        through = _through(runner, name, window)
        _need_end(name, window, through, outcome["looked_through"])
    if first or through is None or window.begin >= through:
        return  # the run has read all of it, or the source has no row in it
    yield _backfilled(runner, name, Window(begin=window.begin, end=min(window.end, through)))


def _backfilled(runner: Runner, name: str, window: Window) -> Document:
    """A new backfill of the window, or the one of the same window that an earlier attempt has left open."""
    begin, end = (moment.isoformat(" ", "microseconds") for moment in (window.begin, window.end))
    left = next((each for each in runner.project.backfills.list(name) if each.status in _LEFT_OPEN), None)
    if left is not None and (_moment(left.begin), _moment(left.end)) == (window.begin, window.end):
        done = runner.resume(name)
    else:
        done = runner.backfill(name, begin, end)
    if done["status"] == Progress.DONE:
        return done
    failed = next((chunk["error"] for chunk in done["chunks"] if chunk["error"]), None)
    code, _, message = (failed or f"plan: it was {done['status'].lower()}").partition(": ")
    raise error_of(
        code,
        f"the backfill of stream {name!r} from {begin} to {end} did not end: {message}",
        f"See `tidegate backfill list {name}`.",
    )


_LEFT_OPEN = (Progress.RUNNING, Progress.FAILED)
"""One that a person has paused is not resumed."""


def _through(runner: Runner, name: str, window: Window) -> datetime | None:
    """The first value of the cursor that the table has not reached; None before the first load."""
    stream = runner.project.streams(name)[0]
    state = stream.format.state(stream.target, stream.uid)
    if state.position is None or state.position.loaded_through is None:
        return None
    column = stream.strategy.cursor[0]
    found = state.schema.find(column) if state.schema else None
    if found is None or found.type.kind not in UNITS:
        raise ConfigError(
            f"stream {name!r} has the cursor {column!r}, which is no time, so that no partition is a range of it",
            hint="Use partitions only for streams whose cursor is a date or a timestamp.",
        )
    if found.type.kind is Kind.DATE and {window.begin.time(), window.end.time()} != {time.min}:
        raise ConfigError(
            f"stream {name!r} has the cursor {column!r} of whole days, and the partitions do not begin at midnight",
            hint="Use daily, weekly or monthly partitions without an offset.",
        )
    return _moment(state.position.loaded_through) + UNITS[found.type.kind]


def _need_end(name: str, window: Window, through: datetime | None, looked_through: str | None) -> None:
    looked = _moment(looked_through) if looked_through else None
    reached = max((each for each in (through, looked) if each is not None), default=None)
    if reached is None or reached < window.end:
        raise PlanError(
            f"the partitions {window} of stream {name!r} are not complete: the source was read up to {reached}",
            hint="Materialize them once they are over; with a `safety_lag:` so much later.",
        )


def _moment(text: str) -> datetime:
    return _plain(datetime.fromisoformat(text))


def _plain(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
