"""A capture instance of SQL Server as a change log: what follows a position, and its events.

The position is the commit (LSN) up to which the capture job's change table was read, and when that commit was, which no
other history of the database has there: a restored one has none, or another one. Never continues where the cleanup job
has removed a change after the position.

The capture job reads the server's log after the fact, so the change table is behind the table, by seconds or, where the
job stands still, without end. What a load proves is therefore that the lake's table is what the table was at the commit
in its position; a change that is not captured yet is neither in the lake nor a difference. How far the job is behind is
told whenever it is more than `LATE`.

Rows of the first load come from a snapshot taken after the newest captured commit was looked up, so that every change
is in the rows, or in the log, or in both. The first load of the log waits until the job has passed the snapshot, and
reads at least up to it, so that no table is left with rows older than its own. A table without changes keeps its
position until half of what the server retains lies behind it; then a load without events moves it, for what is older
than the retention is taken for lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import pymssql

from tidegate.core.display import counted
from tidegate.core.log import Lag, LogSpan
from tidegate.core.ports.source import Probe
from tidegate.core.schema import Schema
from tidegate.core.slices import Everything, LogRange
from tidegate.dialects.sqlserver import change_capture as cdc
from tidegate.dialects.sqlserver.change_capture import Instance, Interval
from tidegate.dialects.sqlserver.session import Connect, SqlServerSession
from tidegate.errors import HistoryGone, SourceError
from tidegate.sources.change_log.capture import capture
from tidegate.sources.change_log.capture.events import CaptureRead, events
from tidegate.sources.change_log.capture.sqlserver import SqlServerLog, session_of
from tidegate.sources.change_log.events import Event

LATE = 15 * 60
"""Seconds after which a capture job that has recorded nothing is told."""
QUIET = 60 * 60
"""Seconds of the log that a table without changes may leave behind its position, whatever the server retains."""


@contextmanager
def opened(options: capture.CaptureOptions, table: Probe, connect: Connect = pymssql.connect) -> Iterator[CaptureLog]:
    """The log, beside the table that it is of.

    Args:
        connect: the driver's function.
    """
    with session_of(options, connect) as session, ExitStack() as held:
        # Nobody has asked the table yet, so its snapshot, whenever it is taken, has what is captured by now.
        begin = cdc.newest(session) if cdc.tracked(session, options.relation).database else None
        yield CaptureLog(options, session, table, held, begin)


class CaptureLog(SqlServerLog):
    """A capture instance as a log of one table.

    Args:
        begin: the newest captured commit before the table was asked anything.
    """

    def __init__(
        self,
        options: capture.CaptureOptions,
        session: SqlServerSession,
        table: Probe,
        held: ExitStack,
        begin: str | None,
    ) -> None:
        super().__init__(session, table, held, options.place)
        self._begin = begin
        self._options = options
        self._notes: list[str] = []

    @property
    def label(self) -> str:
        return f"capture instance {self._options.instance}"

    def verify_unchanged(self) -> None:
        """Nothing to ask: what was captured of a commit never changes, and reading finds what was removed."""

    def notes(self) -> tuple[str, ...]:
        """Of a capture job that is late."""
        return tuple(self._notes)

    def after(self, state: Mapping[str, Any] | None, *, most: int | None) -> LogSpan:
        """What lies after a position; for None the table itself, in a snapshot that is taken now."""
        instance = self._instance(state)
        interval = cdc.interval(self._session, instance)
        self._tell(interval.high)
        if state is None:
            return self._bulk(instance, interval)
        position = self._checked(state, instance, interval)
        capture.check_columns(self._session, self._options, instance, self._table.schema())
        return self._span(state, instance, position, interval.high or position, most)

    def lag(self, state: Mapping[str, Any] | None) -> Lag:
        """The changes after the position, and when the first one committed; of a job that is late how late it is."""
        if state is None:
            return Lag()
        instance = self._instance(state)
        interval = cdc.interval(self._session, instance)
        position = self._checked(state, instance, interval)
        high = interval.high or position
        late = cdc.age(self._session, high)
        found = cdc.count(self._session, instance, position, high)
        if late is None or late > LATE:
            return Lag(events=None, seconds=late)
        first = cdc.oldest(self._session, instance, position, high)
        return Lag(events=found, seconds=cdc.age(self._session, first) if first else 0)

    def decoded(self, part: LogRange, schema: Schema) -> Iterator[Event]:
        """The events of one range. Raises HistoryGone: the cleanup job removed some of them meanwhile."""
        after, upto = part.after or "", part.upto
        instance = self._instance({})
        places = {name: place for place, name in enumerate(schema.names)}
        read = CaptureRead(instance=instance.name, key=tuple(places[name] for name in self._options.key))
        yield from events(cdc.changes(self._session, instance, schema, after, upto), read)
        # The job moves the end of what it retains before it removes anything.
        self._check_retained(after, cdc.interval(self._session, instance))

    def _instance(self, state: Mapping[str, Any] | None) -> Instance:
        found = capture.find(self._session, self._options)
        if found is not None:
            return found
        missing = capture.not_captured(self._session, self._options)
        if state is None:
            raise missing
        raise HistoryGone(f"{missing.message} any more, and changes since the last load are lost")

    def _tell(self, high: str | None) -> None:
        late = cdc.age(self._session, high) if high is not None else None
        if late is not None and late > LATE:
            self._notes.append(
                f"the capture job has recorded nothing for {counted(late // 60, 'minute')}: changes since then are "
                f"not in {self.label} yet"
            )

    def _bulk(self, instance: Instance, interval: Interval) -> LogSpan:
        """The table as one snapshot has it, which has every commit that was captured when the log was opened."""
        high = self._begin
        if interval.low is None or high is None or high < interval.low:
            raise SourceError(
                f"the capture job has not come to {self.label} yet",
                hint="Let an administrator see that SQL Server Agent and the job run (`EXEC sys.sp_cdc_start_job`), "
                "then run again.",
            )
        columns = self._table.schema()
        capture.check_columns(self._session, self._options, instance, columns)
        state = {**self._state(instance, high), "through": cdc.soon(self._session)}
        return LogSpan(
            slices=(Everything(),),
            state=state,
            bulk=True,
            floor=high,
            reason=f"read completely, then the log of {self.label} from LSN {high} on",
        )

    def _state(self, instance: Instance, lsn: str) -> dict[str, Any]:
        committed = cdc.committed_at(self._session, lsn)
        if committed is None:
            raise SourceError(f"the server does not say when the commit of LSN {lsn} was", hint="Run again.")
        return {"instance": instance.name, "change_table": instance.number, "lsn": lsn, "at": committed}

    def _checked(self, state: Mapping[str, Any], instance: Instance, interval: Interval) -> str:
        """The position, if the instance still has everything after it.

        Raises:
            HistoryGone: it has not, or the history is another one.
        """
        if state.get("instance") != instance.name or "lsn" not in state:
            raise HistoryGone(
                f"the table was loaded with capture instance {state.get('instance')}, and the stream now names "
                f"{instance.name}"
            )
        if state.get("change_table") != instance.number:
            raise HistoryGone(f"{self.label} was created again since the last load")
        position = str(state["lsn"])
        if interval.high is None or position > interval.high:
            raise HistoryGone(
                f"the table was loaded up to LSN {position}, but {self.label} ends at {interval.high}", restored=True
            )
        self._check_retained(position, interval)
        if cdc.committed_at(self._session, position) != state.get("at"):
            raise HistoryGone(
                f"the log does not have the commit of LSN {position} that was loaded last: the database was restored",
                restored=True,
            )
        return position

    def _check_retained(self, position: str, interval: Interval) -> None:
        if interval.low is None or position < interval.low:
            raise HistoryGone(
                f"the table was loaded up to LSN {position}, but {self.label} begins at {interval.low}: the cleanup "
                "job has removed changes in between"
            )

    def _span(
        self, state: Mapping[str, Any], instance: Instance, position: str, high: str, most: int | None
    ) -> LogSpan:
        nothing = LogSpan(slices=(), state=state, events=0)
        if (through := state.get("through")) is not None:
            if (cdc.committed_at(self._session, high) or "") <= through:
                self._notes.append(f"{self.label} is read once the capture job has passed the first load")
                return nothing
            most = None
        upto, found = high, cdc.count(self._session, instance, position, high)
        if most is not None and found > most:
            upto = cdc.limited(self._session, instance, position, high, most)
            left, found = found, cdc.count(self._session, instance, position, upto)
            left -= found
        else:
            left = 0
        if not found and not self._old(instance, position, high):
            return nothing
        return LogSpan(
            slices=(LogRange(part=instance.name, after=position, upto=upto),),
            state=self._state(instance, upto),
            events=found,
            taken=found,
            behind=left,
            reason=f"{counted(found, 'change')} up to LSN {upto}"
            if found
            else f"no change up to LSN {upto}, recorded before the server drops what lies behind",
        )

    def _old(self, instance: Instance, position: str, high: str) -> bool:
        """Whether the position of a table without changes should move, lest it falls behind what is retained."""
        low = cdc.interval(self._session, instance).low or position
        behind = cdc.between(self._session, position, high) or 0
        left = cdc.between(self._session, low, position)
        return behind > QUIET and (left is None or behind > left)
