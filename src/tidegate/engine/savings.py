"""What incremental loads read, against a full reload in each run's place, for `tidegate savings`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, ClassVar

from tidegate.core.display import Shown
from tidegate.core.outcome import Problem
from tidegate.core.report import StreamReport
from tidegate.registry import recent
from tidegate.registry.reader import RegistryReader
from tidegate.registry.values import PartitionDay, StreamStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSavings(Shown):
    """What the runs of one stream read, and what full reloads would have read.

    Args:
        runs: that loaded or found nothing new.
        rows_read, bytes_read, seconds: of these runs together; bytes are None where rows were read and the source did
            not say how large they are.
        table_rows: of the table now; None where nobody could tell, and then nothing is estimated.
        rows_full: what a full reload in place of each run would have read: an estimate, for the table may have been
            smaller.
        seconds_full: the same by the speed of the run that read most; None where no run read rows.
    """

    shown: ClassVar[tuple[str, ...]] = ("stream", "runs", "rows_read", "rows_full", "seconds", "seconds_full")

    stream: str
    runs: int
    rows_read: int
    bytes_read: int | None
    seconds: float
    table_rows: int | None = None
    seconds_full: float | None = None

    @property
    def error(self) -> Problem | None:
        """Never one: an estimate that cannot be made is None."""
        return None

    @property
    def rows_full(self) -> int | None:
        """See above."""
        return None if self.table_rows is None else self.table_rows * self.runs

    @property
    def rows_saved(self) -> int | None:
        """Rows that were not read; negative where runs read more than a reload would have."""
        return None if self.rows_full is None else self.rows_full - self.rows_read

    @property
    def bytes_full(self) -> int | None:
        """Bytes of a full reload in place of each run, by the bytes of a row as they were read; None without any."""
        if self.rows_full is None or not self.rows_read or not self.bytes_read:
            return None
        return round(self.bytes_read / self.rows_read * self.rows_full)

    def to_dict(self) -> dict[str, Any]:
        """JSON types only."""
        return {**asdict(self), **{name: getattr(self, name) for name in ("rows_full", "rows_saved", "bytes_full")}}


@dataclass(frozen=True, slots=True, kw_only=True)
class SavingsReport(StreamReport[StreamSavings]):
    """The savings of streams since a time.

    Args:
        days: of the streams that are loaded by checksum, what was found in their partitions, newest first.
    """

    since: datetime
    streams: tuple[StreamSavings, ...]
    days: tuple[PartitionDay, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The document of `savings --json`."""
        streams, days = [stream.to_dict() for stream in self.streams], [asdict(day) for day in self.days]
        return {"since": self.since.isoformat(), "streams": streams, "days": days}


def savings(
    registry: RegistryReader, streams: Sequence[StreamStatus], tables: Mapping[str, int | None], since: datetime
) -> SavingsReport:
    """What the registry recorded of the streams' runs.

    Args:
        tables: the rows of each table by the stream's name, where they are known.
    """
    uids = [each.uid for each in streams]
    read = registry.ask(lambda connection: recent.reading(connection, uids, since))
    pace = registry.ask(lambda connection: recent.largest_reads(connection, uids, since))
    days = registry.ask(lambda connection: recent.partition_days(connection, uids, since))
    saved = tuple(_savings(each, read, pace, tables) for each in streams)
    return SavingsReport(since=since, streams=saved, days=tuple(days))


def _savings(
    status: StreamStatus,
    read: Mapping[str, tuple[int, int, int, float]],
    pace: Mapping[str, tuple[int, float]],
    tables: Mapping[str, int | None],
) -> StreamSavings:
    runs, rows, size, seconds = read.get(status.uid, (0, 0, 0, 0.0))
    known = tables.get(status.stream)
    most, took = pace.get(status.uid, (0, 0.0))
    return StreamSavings(
        stream=status.stream,
        runs=runs,
        rows_read=rows,
        bytes_read=None if rows and not size else size,
        seconds=round(seconds, 3),
        table_rows=known,
        seconds_full=round(took / most * known * runs, 1) if most and known is not None else None,
    )
