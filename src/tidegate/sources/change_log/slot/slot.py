"""The lifecycle of a replication slot: create it, confirm what is loaded, report its size, drop it.

Never confirms more than a table's own position covers, nor creates a slot for a table whose log would not identify the
changed rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidegate.core.column_selection import ColumnSelection
from tidegate.core.ids import Connection
from tidegate.core.ports.capabilities import ReplicationSlot
from tidegate.core.ports.dialect import Relation
from tidegate.core.retention import SlotRetention
from tidegate.core.yaml_text import listed
from tidegate.dialects.postgresql import Postgresql, catalog, publications
from tidegate.dialects.postgresql import replication_slots as slots
from tidegate.dialects.postgresql.session import PostgresqlSession
from tidegate.errors import ConfigError, HistoryGone, SchemaRefused
from tidegate.sources.change_log.slot.events import WHOLE_ROW, number
from tidegate.sources.shared.relation import of_table

KEPT_BYTES = 1024 * 1024 * 1024
SPOOL = "spool"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotOptions(ReplicationSlot):
    """What a log in a slot is, as the project says; see `ChangeLog`.

    Args:
        key: by which the changes are applied.
        selection: the columns that are read.
        folder: the project's.
    """

    connection: Connection
    slot: str
    table: str
    publication: str
    folder: Path
    key: tuple[str, ...] = ()
    selection: ColumnSelection = field(default_factory=ColumnSelection)

    def __post_init__(self) -> None:
        slots.check_name(self.slot)
        if self.connection.scheme not in (Postgresql.kind, *Postgresql.schemes):
            raise ConfigError(
                f"connection {self.connection.name!r} is not PostgreSQL, and only PostgreSQL has replication slots"
            )

    @property
    def place(self) -> Path:
        """Where its events wait for Spark."""
        return self.folder / ".tidegate" / SPOOL / self.slot

    @property
    def relation(self) -> Relation:
        return of_table(Postgresql(), self.table)

    def claim(self) -> None:
        """Makes the server keep every change from now on, where it does not yet; called before the table is read.

        Raises:
            ConfigError: the server cannot, the slot or the publication are made for something else, or the log does not
                tell the key of a row that went.
            SchemaRefused: the table's log would not say which row changed.
        """
        with session_of(self) as session:
            slots.check_server(session)
            check_key(session, self, check_identity(session, self))
            found = slots.find(session, self.slot)
            if found is not None and found.plugin != slots.PLUGIN:
                raise ConfigError(
                    f"the slot {self.slot} was created for the plugin {found.plugin}, not {slots.PLUGIN}",
                    hint="Use another `slot:`; the first run creates it.",
                )
            unpublished = publications.published(session, self.publication, self.relation) is None
            if unpublished:
                publications.publish(session, self.publication, self.relation)
            check_publication(session, self)
            # A slot decodes with the publications of the time of a change.
            if found is not None and (unpublished or found.status == slots.LOST):
                slots.drop(session, self.slot)
                found = None
            if found is None:
                slots.make(session, self.slot)

    def acknowledge(self, state: Mapping[str, Any]) -> None:
        """Lets the server forget what the table covers that is at this state of the log; nothing where it has.

        Raises:
            HistoryGone: the log is not the one that the table was loaded from.
        """
        place = state.get("lsn")
        if place is None or state.get("slot") != self.slot:
            return
        with session_of(self) as session:
            found = slots.find(session, self.slot)
            if found is not None and found.confirmed is not None and found.confirmed < number(place):
                check_history(session, self, state)
                slots.advance(session, self.slot, place)

    def retained(self) -> SlotRetention:
        with session_of(self) as session:
            found = slots.find(session, self.slot)
        where = self.connection.name
        if found is None:
            return SlotRetention(name=self.slot, where=where, exists=False)
        return SlotRetention(
            name=found.name,
            where=where,
            exists=True,
            active=found.active is not None,
            status=found.status,
            bytes=found.retained,
            behind=found.behind,
            warning=warning_of(found),
        )

    def release(self) -> None:
        """Drops the slot, and the publication that this user made with it."""
        with session_of(self) as session:
            slots.drop(session, self.slot)
            if self.publication == self.slot:
                publications.unpublish(session, self.publication)


def warning_of(found: slots.Slot) -> str | None:
    """What is wrong with a slot, for people; None for nothing."""
    if found.status == slots.LOST:
        return f"slot {found.name} has lost changes: the server retains no more than `max_slot_wal_keep_size`"
    if found.retained > KEPT_BYTES or found.status not in ("reserved", None):
        return f"slot {found.name} retains {found.retained / 2**20:,.0f} MiB of write-ahead log ({found.status})"
    return None


def check_identity(session: PostgresqlSession, options: SlotOptions) -> slots.Identified:
    """How a row is identified in the log.

    Raises:
        SchemaRefused: it is not, or the log does not carry every column that is read.
    """
    relation = options.relation
    found, table = slots.identified(session, relation), relation.sql
    if found.kind not in ("r", "p"):
        raise SchemaRefused(f"{relation.label} is not a table, and only tables have a log")
    if found.identity == "n" or (found.identity in "di" and not found.columns):
        raise SchemaRefused(
            f"the log of {relation.label} does not identify the row of an update or delete: the table has no primary "
            "key, or a DEFERRABLE one",
            hint=f"`ALTER TABLE {table} REPLICA IDENTITY FULL`, or give it a primary key; then run again.",
        )
    if found.kind == "p" and (found.identity in "fi" or not found.uniform):
        raise SchemaRefused(
            f"the partitions of {relation.label} do not all identify their rows by the primary key alone",
            hint="`ALTER TABLE … REPLICA IDENTITY DEFAULT` for the table and each of its partitions.",
        )
    generated = [name for name in found.generated if options.selection.takes(name)]
    if generated:
        raise SchemaRefused(
            f"columns of {relation.label} are generated, and the log does not contain them: {', '.join(generated)}",
            hint=f"Leave them out with `source: {{exclude: {listed(generated)}}}`, or load the table by another "
            "strategy.",
        )
    return found


def check_key(session: PostgresqlSession, options: SlotOptions, identified: slots.Identified) -> tuple[str, ...]:
    """What keeps two rows from having one key, be it only until the end of a statement or transaction.

    Returns:
        Constraints and indexes; none where the log itself shows whenever its rows had another key.

    Raises:
        ConfigError: nothing does, or the log does not tell the key of a row that went.
    """
    label, table, columns = options.relation.label, options.relation.sql, identified.columns
    named = ", ".join(options.key)
    if columns and not set(options.key) <= set(columns):
        raise ConfigError(
            f"the log of {label} identifies changed rows by {', '.join(columns)}, but the key of the stream is {named}",
            hint=f"Use `key: [{', '.join(columns)}]`, or `ALTER TABLE … REPLICA IDENTITY USING INDEX …`.",
        )
    if children := catalog.inheriting(session, options.relation):
        raise ConfigError(
            f"{children[0]} inherits from {label}: a query of {label} returns its rows, too, and the log of {label} "
            "does not contain them",
            hint=f"`ALTER TABLE {children[0]} NO INHERIT {table}`, or load the table by another strategy.",
        )
    found = [index for index in catalog.unique_indexes(session, options.relation) if index.columns <= set(options.key)]
    if not found:
        raise ConfigError(
            f"nothing in {label} keeps two rows from having the same {named}, and of such rows the log does not tell "
            "which one changed",
            hint="Give those columns a primary key or a unique index, and NOT NULL; or load the table by another "
            "strategy.",
        )
    immediate = [index for index in found if index.immediate]
    if not immediate:
        raise ConfigError(
            f"the key {named} of {label} is DEFERRABLE: while a statement moves keys from row to row, two rows have "
            "one key, and the log does not tell which of them is deleted",
            hint=f"`CREATE UNIQUE INDEX ON {table} ({', '.join(map(session.dialect.quote, options.key))})`, "
            "which is checked at once; or use another `key:`, or load the table by another strategy.",
        )
    shown = identified.identity != WHOLE_ROW and set(columns) == set(options.key)
    return () if shown else tuple(sorted(index.mark for index in immediate))


@contextmanager
def session_of(options: SlotOptions) -> Iterator[PostgresqlSession]:
    """A connection of its own: what is asked about slots must not run inside the snapshot of the rows."""
    session = PostgresqlSession(Postgresql(), options.connection)
    try:
        session.rows("SET statement_timeout = 0")
        yield session
    finally:
        session.close()


def check_history(session: PostgresqlSession, options: SlotOptions, state: Mapping[str, Any]) -> None:
    """Compares the log from where the slot begins up to the table's position with what was loaded of it.

    A slot may be behind the position because a confirmation was lost in a crash, or because the server was restored
    from a copy that is older than the last load. Only in the first case the last transaction that was loaded is still
    in its place, and nothing follows it before the position.

    Raises:
        HistoryGone: the log is another one.
    """
    last, position, found = state.get("last"), number(state["lsn"]), slots.find(session, options.slot)
    if last is None or found is None or found.confirmed is None or found.confirmed >= position:
        return
    seen = slots.begun(session, options.slot, options.publication, after=last, upto=position)
    if seen != [last] * (int(last[:16], 16) >= found.confirmed):
        raise HistoryGone(
            f"the log of slot {options.slot} up to {state['lsn']} does not have the transactions that were loaded from "
            "it: the server was restored from an older copy",
            restored=True,
        )


def check_publication(session: PostgresqlSession, options: SlotOptions) -> publications.Publication:
    """What the stream's publication says of its table.

    Raises:
        HistoryGone: there is none any more.
        ConfigError: it does not tell every change, row and column of the table.
    """
    name, table = options.publication, options.relation
    found = publications.published(session, name, table)
    if found is None:
        raise HistoryGone(f"publication {name} no longer exists")
    if found.lists and not found.holds:
        raise ConfigError(
            f"the publication {name} has the changes of the partitions of {table.label} under their own names",
            hint=f"`ALTER PUBLICATION {name} SET (publish_via_partition_root = true)`, then run `tidegate resync "
            "STREAM`.",
        )
    if not found.holds:
        raise ConfigError(
            f"the publication {name} does not include {table.label}",
            hint=f"Use another `publication:`, or `ALTER PUBLICATION {name} ADD TABLE {table.sql}` and run "
            "`tidegate resync STREAM`.",
        )
    if not found.whole or found.limited:
        raise ConfigError(
            f"the publication {name} omits some changes, rows or columns of {table.label}",
            hint="Use another `publication:`; without one, the first run creates it.",
        )
    return found
