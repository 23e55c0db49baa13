"""SQL Server's change tracking as a change log: the keys that changed after a position, with their rows of now.

The position is the version of the last commit that was seen. Everything after it is asked inside one snapshot
transaction, at detection, reading and verification alike, so all of them see the same changes and the same rows. Of
several changes of a row only the last one is seen: the table is what the source is at the snapshot, not what it was in
between.

Never continues where the server no longer knows every change since the position (cleanup, TRUNCATE, tracking that was
switched off), nor in a database that was restored: its versions start again below the position, and pass it later, so
the recovery fork of the database is part of the position. Takes only keys that are equal to the server where they are
equal to the lake: of a text that is only written in other letters the old key would stay for ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymssql

from tidegate.core.display import counted
from tidegate.core.log import Lag, LogSpan
from tidegate.core.ports.source import Probe
from tidegate.core.schema import Kind, Schema
from tidegate.core.slices import Everything, LogRange
from tidegate.dialects.sqlserver import catalog
from tidegate.dialects.sqlserver import change_tracking as tracking
from tidegate.dialects.sqlserver.change_tracking import Change, Span, Versions
from tidegate.dialects.sqlserver.errors import quoted
from tidegate.dialects.sqlserver.session import Connect, SqlServerSession
from tidegate.errors import ConfigError, HistoryGone, SourceError
from tidegate.sources.change_log.capture.sqlserver import SqlServerLog, SqlServerLogOptions, check_server, session_of
from tidegate.sources.change_log.events import Event
from tidegate.sources.change_log.stated import Stated

KEYS = frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.DATE, Kind.UUID})
HIDDEN = "change tracking and the table disagree whether its row exists; a security policy may hide the row"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackingOptions(SqlServerLogOptions):
    """What a log of change tracking is, as the project says; see `ChangeLog`."""

    @classmethod
    def of(cls, stated: Stated) -> TrackingOptions:
        """Raises ConfigError: the connection is to another kind of database."""
        check_server(stated.connection, "change tracking")
        return cls(connection=stated.connection, table=stated.table, key=stated.stream_key, folder=stated.folder)

    @property
    def place(self) -> Path:
        """Where its events wait for Spark."""
        return self.folder / ".tidegate" / "spool" / "change-tracking"


@contextmanager
def opened(options: TrackingOptions, table: Probe, connect: Connect = pymssql.connect) -> Iterator[TrackingLog]:
    """The log, beside the table that it is of.

    Args:
        connect: the driver's function.
    """
    with session_of(options, connect) as session, ExitStack() as held:
        # Nobody has asked the table yet, so its snapshot, whenever it is taken, has what is committed by now.
        begin = tracking.versions(session, options.relation)
        yield TrackingLog(options, session, table, held, begin)


class TrackingLog(SqlServerLog):
    """Change tracking as a log of one table.

    Args:
        begin: the versions before the table was asked anything.
    """

    def __init__(
        self, options: TrackingOptions, session: SqlServerSession, table: Probe, held: ExitStack, begin: Versions
    ) -> None:
        super().__init__(session, table, held, options.place)
        self._options = options
        self._begin = begin

    @property
    def label(self) -> str:
        return f"change tracking of {self._options.relation.label}"

    def verify_unchanged(self) -> None:
        """Nothing to ask: every answer is of one snapshot."""

    def notes(self) -> tuple[str, ...]:
        return ()

    def after(self, state: Mapping[str, Any] | None, *, most: int | None) -> LogSpan:
        """What changed after a position; for None the table itself, in a snapshot that is taken now."""
        least, fork = self._known(state)
        self._check_key()
        if state is None:
            version = self._current(self._begin)
            return LogSpan(
                slices=(Everything(),),
                state=_state(version, fork),
                bulk=True,
                floor=_order(version),
                reason=f"read completely, then {self.label} from version {version} on",
            )
        position, current = self._checked(state, least, fork)
        upto, left = current, 0
        relation, span = self._options.relation, Span(position, current)
        found = tracking.count(self._session, relation, span)
        if most is not None and found > most:
            upto = tracking.limited(self._session, relation, span, most)
            taken = tracking.count(self._session, relation, Span(position, upto))
            found, left = taken, found - taken
        # A table without changes keeps its position until half of what the server still knows lies behind it.
        if not found and current - position <= position - least:
            return LogSpan(slices=(), state=state, events=0)
        return LogSpan(
            slices=(LogRange(part=self.label, after=str(position), upto=str(upto)),),
            state=_state(upto, fork),
            events=found,
            taken=found,
            behind=left,
            reason=f"{counted(found, 'row')} that changed up to version {upto}"
            if found
            else f"no change up to version {upto}, recorded before the server forgets what lies behind",
        )

    def lag(self, state: Mapping[str, Any] | None) -> Lag:
        """The rows that changed after the position; since when no version tells."""
        if state is None:
            return Lag()
        span = Span(*self._checked(state, *self._known(state)))
        found = tracking.count(self._session, self._options.relation, span)
        return Lag(events=found, seconds=None if found else 0)

    def decoded(self, part: LogRange, schema: Schema) -> Iterator[Event]:
        """The events of one range: one for each row."""
        options, span = self._options, Span(int(part.after or 0), int(part.upto))
        for change in tracking.changes(self._session, options.relation, schema, options.key, span):
            yield _event(change, self.label)

    def _known(self, state: Mapping[str, Any] | None) -> tuple[int, str]:
        """The least version from which changes are complete, in the snapshot; and the recovery fork.

        Raises:
            ConfigError: the table is not tracked.
            SourceError: this user may not see it.
            HistoryGone: it is not tracked any more.
        """
        relation, user = self._options.relation, self._session.user
        fork = tracking.fork(self._session)
        tracked = tracking.tracked(self._session, relation)
        if tracked.table and not tracked.allowed:
            raise SourceError(
                f"this login may not see the change tracking of {relation.label}",
                hint=f"Let an administrator run `GRANT VIEW CHANGE TRACKING ON {relation.sql} TO {user}`.",
            )
        self._session.hold(relation)
        least = tracking.versions(self._session, relation).least
        if not (tracked.database and tracked.table) or least is None:
            if state is not None:
                raise HistoryGone(f"changes of {relation.label} are not tracked any more")
            database = quoted(self._session.address.database)
            first = "" if tracked.database else f"ALTER DATABASE {database} SET CHANGE_TRACKING = ON; "
            raise ConfigError(
                f"changes of {relation.label} are not tracked, or this login may not see it",
                hint=f"Let its owner run `{first}ALTER TABLE {relation.sql} ENABLE CHANGE_TRACKING` and `GRANT VIEW "
                f"CHANGE TRACKING ON {relation.sql} TO {user}`, then run again.",
            )
        if fork is None:
            raise SourceError(
                "this login may not see which history the database is on, so a restore would not be noticed",
                hint=f"Let an administrator run `GRANT VIEW ANY DATABASE TO {self._session.login}`; or read a "
                "`capture_instance:`.",
            )
        return least, fork

    def _check_key(self) -> None:
        """Raises ConfigError: the stream's key is not the one by which the server tells changed rows."""
        relation = self._options.relation
        known = catalog.primary_key(self._session, relation)
        if set(known) != set(self._options.key):
            raise ConfigError(
                f"change tracking tells changed rows of {relation.label} by {', '.join(known)}, but the key of the "
                f"stream is {', '.join(self._options.key)}",
                hint=f"Use `key: [{', '.join(known)}]`.",
            )
        columns = self._table.schema()
        for name in known:
            column = columns.find(name)
            if column is None or column.type.kind not in KEYS:
                what = "is not read" if column is None else f"is {column.label}"
                raise ConfigError(
                    f"the key column {name} of {relation.label} {what}: change tracking needs a key of integers, "
                    "decimals, dates or uniqueidentifier, for of other types the server takes values for equal that "
                    "the lake does not",
                    hint="Read the changes with a `capture_instance:`, which has each key as it was.",
                )

    def _current(self, found: Versions) -> int:
        if found.current is None:
            raise SourceError(f"{self.label} has no version yet", hint="Run again.")
        return found.current

    def _checked(self, state: Mapping[str, Any], least: int, fork: str) -> tuple[int, int]:
        """The position and the version of the snapshot, if every change after the position is still known.

        Raises:
            HistoryGone: it is not, or the history is another one.
        """
        current = self._current(tracking.versions(self._session, self._options.relation))
        if "version" not in state:
            raise HistoryGone(f"the table was not loaded with {self.label}")
        position = int(state["version"])
        if state.get("fork") != fork or current < position:
            raise HistoryGone(
                f"the database was restored since the table was loaded up to version {position}", restored=True
            )
        if position < least:
            raise HistoryGone(
                f"the table was loaded up to version {position}, but {self.label} begins at {least}: changes in "
                "between were cleaned up, or the table was truncated, or tracking was switched off"
            )
        return position, current


def _event(change: Change, label: str) -> Event:
    return Event(
        order=_order(change.version),
        deleted=change.deleted,
        clears=False,
        values=change.values,
        unknown=(),
        refused=HIDDEN if change.deleted == change.present else None,
        raw=None,
        origin=f"{label}, version {change.version}",
    )


def _state(version: int, fork: str) -> dict[str, Any]:
    return {"version": str(version), "fork": fork}


def _order(version: int) -> str:
    return f"{version:020d}"
