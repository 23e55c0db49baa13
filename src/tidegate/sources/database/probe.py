"""Answers questions of strategies and verification by SQL on a database, without Spark.

Safe for several threads. Safe bounds are requested before the probe exists; every answer comes from its snapshot.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from tidegate.core.batch import Latest
from tidegate.core.bounds import BoundRequest, TimeBound
from tidegate.core.bucketing import Buckets, RowDigest
from tidegate.core.casts import Cast
from tidegate.core.changes import SafeBound, SliceStats, upto_bound
from tidegate.core.column_selection import ColumnSelection
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.grouping import TIMES, Grouping, Ranges
from tidegate.core.plan import Prune
from tidegate.core.policies.contract import ColumnMapping, Mode
from tidegate.core.policies.retention import Kept
from tidegate.core.ports.capabilities import DetectsRestore, RescuesColumns
from tidegate.core.ports.dialect import Dialect, Relation, Row, Session
from tidegate.core.ports.source import Probe
from tidegate.core.position import NEWEST, Position
from tidegate.core.position_state import cursor_of
from tidegate.core.schema import RESCUED, Schema, SchemaChange
from tidegate.core.slices import Partition, Range, Slice
from tidegate.dialects.shared import own_hashes
from tidegate.dialects.shared.buckets import scope
from tidegate.dialects.shared.statements import Statements
from tidegate.errors import InternalError, PlanError, SchemaRefused
from tidegate.sources.database.described import described, known, retained
from tidegate.sources.database.newest_rows import NewestRows, newest_by

# From here on a fingerprint is worth more than one connection.
SPLIT_ROWS = 250_000
PIECES = 8
LISTED_KEYS = 100


class DatabaseProbe(Probe):
    """Questions to one relation over one session."""

    def __init__(  # noqa: PLR0913 - what a question to a database is made of
        self,
        dialect: Dialect,
        session: Session,
        relation: Relation,
        selection: ColumnSelection,
        *,
        bound: BoundRequest | None = None,
        edge: SafeBound | None = None,
        kept: Kept | None = None,
    ) -> None:
        self.session = session
        self._dialect = dialect
        self._relation = relation
        self._selection = selection
        self._kept = kept
        self._lock = threading.Lock()
        self._known: Statements | None = None
        self._opened_at = datetime.now(UTC)
        self._held_at: datetime | None = None
        self._stats: dict[Slice, SliceStats] = {}
        self._fingerprints: dict[Slice, Fingerprint] = {}
        self._edge = edge
        # How far back a change may lie; None where nothing says so.
        self._late = bound.lookback if isinstance(bound, TimeBound) else None
        column = bound.column if bound is not None else ""
        self._notes = [f"{holder} holds back the safe bound of {column}" for holder in (edge.held_by if edge else ())]
        self._mapping: ColumnMapping | None = None
        self._unloaded: Mapping[SchemaChange, Mode] = {}
        self._casts: Mapping[SchemaChange, Cast] = {}

    @property
    def rescue(self) -> RescuesColumns:
        """Its own."""
        return self

    @property
    def restore(self) -> DetectsRestore:
        """Its own."""
        return self

    def map_columns(self, mapping: ColumnMapping) -> None:
        """From now on the relation has the columns that the mapping leaves, and one that holds those that it keeps.

        Asked before anything else.
        """
        self._mapping = mapping

    def left_out(self) -> Mapping[SchemaChange, Mode]:
        """The changes whose columns are left out of the table's own."""
        return {**self._unloaded, **dict.fromkeys(self._casts, Mode.CAST)} if self._known is not None else {}

    def unpacked(self) -> tuple[Statements, tuple[str, ...]]:
        """What is asked where every column is read, and the names of those that are packed into one after that."""
        known = self.statements
        if self._mapping is None or not self._mapping.keeps or known.schema.find(RESCUED.name) is None:
            return known, ()
        rescued = {change.column for change, mode in self._unloaded.items() if mode is Mode.RESCUE}
        packed = tuple(column for column in self._columns() if column.name in rescued)
        columns = (*(column for column in known.schema if column.name != RESCUED.name), *packed)
        return replace(known, schema=replace(known.schema, columns=columns)), tuple(column.name for column in packed)

    @property
    def statements(self) -> Statements:
        """What is asked from inside the snapshot; the first use takes it."""
        with self._lock:
            if self._known is None:
                with known(self.session, self._relation):
                    self._opened_at = datetime.now(UTC)
                    self.session.hold(self._relation)
                self._known = self._described()
            return self._known

    def schema(self) -> Schema:
        """The columns that a load reads."""
        return self.statements.schema

    def identity(self) -> str:
        """Server and relation."""
        return self.session.identity(self._relation)

    def clock(self) -> int | None:
        """A number that only grows while the history goes on."""
        return self.session.clock()

    def witness(self, cursor: Sequence[str], since: Position | None) -> Mapping[str, Any]:
        """What the database keeps of this moment, the greatest value of the cursor, and the rows that have it."""
        found = dict(self.session.witness())
        if found and len(cursor) == 1 and self.statements.has_order(cursor[0]):
            ((found["greatest"],),) = self.session.rows(self.statements.greatest(cursor[0]))
        rows = self._newest(cursor, NewestRows.of(since.witness.get(NEWEST)) if since else None)
        return {**found, NEWEST: rows.kept} if rows is not None else found

    def restore_reason(self, since: Position) -> str | None:
        """By the rows that were the newest, then by what the database keeps of itself, then by the rows above them."""
        known = NewestRows.of(since.witness.get(NEWEST))
        if known is not None and self._late is not None:
            reason = known.regressed_row(self.session, self.statements, self._late)
            if reason is not None:
                return reason
        if not since.witness.keys() - {NEWEST}:
            return None
        checked = self.session.check_restore(since.witness, since.clock)
        if not checked.restarted or checked.reason is not None:
            return _restored(checked.reason)
        cursor, greatest, upto = cursor_of(since.state), since.witness.get("greatest"), self.safe_bound()
        if len(cursor) != 1 or greatest is None or upto is None:
            return None
        part = Range(cursor=cursor, after=greatest, upto=upto)
        return _restored(self.session.older_than(since.witness, self._relation, self.statements.condition(part)))

    def follows(self) -> bool:
        """Whether it is a standby."""
        return self.session.follows()

    def version(self) -> None:
        """None: a database has no name for what it holds."""

    def unique(self, key: Sequence[str]) -> bool:
        """Whether a unique index lies within the key, of columns that are never NULL and tell their values apart."""
        columns = [self.statements.column(name) for name in key]
        if not columns or any(column.nullable for column in columns):
            return False
        apart = {column.name for column in columns if self._dialect.tells_apart(column)}
        return any(names <= apart for names in self.session.unique_sets(self._relation))

    def edge(self) -> SafeBound:
        """The bound that the source was opened with."""
        if self._edge is None:
            raise InternalError("a source that was opened without a bound was asked for one")
        return self._edge

    def safe_bound(self) -> str | None:
        """The safe bound, if one was asked for."""
        return self._edge.upto if self._edge is not None else None

    def stats(self, part: Slice) -> SliceStats:
        """Rows, last cursor and bytes of a slice; asked once."""
        if part not in self._stats:
            ((rows, last, later, greatest),) = self.session.rows(self.statements.stats(part))
            size = self.row_bytes * rows if rows else 0
            found = SliceStats(rows=rows, last=last, later=later, greatest=greatest, bytes=size)
            self._stats[part] = found
            if isinstance(part, Range) and last is not None:
                # Up to the last row seen is the same slice, and the one that gets loaded.
                self._stats[replace(part, upto=last)] = found
        return self._stats[part]

    @cached_property
    def row_bytes(self) -> int:
        """Of a row on average, as the database estimates it."""
        return self.session.row_bytes(self._relation)

    def key_bounds(self, part: Slice, column: str) -> Prune | None:
        """Least and greatest value of a column in a slice, and all of them if they are few."""
        if not self.statements.has_order(column):
            return None
        many = self._about(part) >= SPLIT_ROWS
        ((rows, low, high),) = self.session.rows(self.statements.key_bounds(part, column, counted=not many))
        if low is None:
            return None
        values: tuple[str, ...] = ()
        if not many and rows <= LISTED_KEYS:
            values = tuple(
                sorted(row[0] for row in self.session.rows(self.statements.values(part, column, LISTED_KEYS)))
            )
        return Prune(column=column, type=self.statements.column(column).type, low=low, high=high, values=values)

    def fingerprint(self, part: Slice, *, latest: Latest | None = None) -> Fingerprint:
        """Fingerprint of the slice's rows, once where a snapshot stands; of a big one over several connections."""
        statements = self.statements
        if latest is None and part in self._fingerprints and self.has_snapshot():
            return self._fingerprints[part]
        where = statements.condition(part) if latest is None else None
        found = self._asked(where, lambda cut: statements.fingerprint(part, latest, cut))
        total = sum((Fingerprint.of_sums(row) for row in found), Fingerprint())
        if latest is None:
            self._fingerprints[part] = total
        return total

    def partitions(
        self, grouping: Grouping, *, since: Partition | None = None, only: Sequence[Slice] = ()
    ) -> Mapping[Slice, Fingerprint]:
        """Fingerprint of every partition that has rows; of a big table over several connections of one snapshot."""
        statements, parts = self.statements, scope(since, only)
        by = statements.bucket(grouping)
        found: defaultdict[Slice, Fingerprint] = defaultdict(Fingerprint)
        for bucket, *sums in self._asked(statements.among(parts), lambda cut: statements.grouped(by, parts, cut)):
            found[statements.partition(grouping, bucket)] += Fingerprint.of_sums(sums)
        # Their rows are counted by that, and need not be again when they are read.
        self._stats |= {part: SliceStats(rows=one.rows) for part, one in found.items()}
        return found

    def ranges(self) -> Ranges:
        """Those in which the database keeps the table, in the order of their values.

        Raises:
            PlanError: the relation is not partitioned by ranges of one column of an integer or a time.
        """
        held = self.session.ranges(self._relation)
        if held is None:
            raise PlanError(
                f"{self._relation.label} is not a table that is partitioned by ranges of one column",
                hint="Choose method: by_integer, by_date or by_substr with a `column:`.",
            )
        name, ends = held
        column, dialect = self.statements.column(name), self._dialect
        if (reason := Ranges(column=name, cuts=()).incompatibility(column)) is not None:
            raise PlanError(
                f"method by_range: {reason}", hint="Choose method: by_substr with that column, or another method."
            )
        texts = ", ".join(dialect.text(end, column) for end in ends)
        cuts = self.session.rows(f"SELECT {texts}")[0] if ends else ()
        return Ranges(column=name, cuts=tuple(sorted(cuts, key=int if column.type.kind not in TIMES else str)))

    def quick_hashes(self, grouping: Grouping, *, since: Partition | None = None) -> Mapping[Slice, str] | None:
        """The engine's own hash of every partition, over all columns; None where it has none."""
        statements, parts = self.statements, scope(since, ())
        by = statements.bucket(grouping)
        if statements.quick_hashes(by, parts) is None:
            return None
        found: defaultdict[Slice, tuple[int, int]] = defaultdict(lambda: (0, 0))
        hashed = self._asked(statements.among(parts), lambda cut: statements.quick_hashes(by, parts, cut))
        for bucket, rows, total in hashed:
            part = statements.partition(grouping, bucket)
            found[part] = (found[part][0] + rows, found[part][1] + int(total))
        return {
            part: f"{self._dialect.kind}:{rows}:{total}:{statements.own.digest}"
            for part, (rows, total) in found.items()
        }

    def quick_hash(self, names: Sequence[str]) -> tuple[int, str] | None:
        """Rows, and the engine's own hash over these columns of all of them; None where it has none."""
        statements = self.statements
        if own_hashes.of_columns(statements, names) is None:
            return None
        found = self._asked("1 = 1", lambda cut: own_hashes.of_columns(statements, names, cut))
        rows, total = (sum(int(each) for each in column) for column in zip(*found, strict=True))
        return rows, f"{self._dialect.kind}:{rows}:{total}"

    def own_fingerprint(self) -> str | None:
        """Of all rows over all columns, in the database's own exact texts."""
        statements = self.statements
        if own_hashes.of_rows(statements) is None:
            return None
        found = self._asked("1 = 1", lambda cut: own_hashes.of_rows(statements, cut))
        return f"{self._dialect.kind}:{sum(map(Fingerprint.of_sums, found), Fingerprint())}"

    def spread(
        self, part: Slice, key: Sequence[str], buckets: Buckets, *, latest: Latest | None = None
    ) -> Mapping[str, Fingerprint]:
        """Fingerprint of every bucket of the slice that has rows; of a big table over several connections."""
        statements = self.statements
        where = f"{statements.condition(part)} AND {statements.within(key, buckets)}"
        cutting = where if latest is None else None
        found: defaultdict[str, Fingerprint] = defaultdict(Fingerprint)
        for bucket, *sums in self._asked(cutting, lambda cut: statements.spread_of(key, buckets, where, cut, latest)):
            found[bucket] += Fingerprint.of_sums(sums)
        return found

    def digests(
        self, part: Slice, key: Sequence[str], buckets: Buckets, *, latest: Latest | None = None
    ) -> Sequence[RowDigest]:
        """The rows of the named buckets by key and md5, also those beyond the slice."""
        statements = self.statements
        asked = statements.digests(key, part, statements.within(key, buckets), keys=buckets.keys, latest=latest)
        return [
            RowDigest(key=tuple(values), digest=digest, inside=bool(inside))
            for *values, digest, inside in self.session.parallel(self._relation, [asked])
        ]

    def condition(self, part: Slice) -> str:
        """The slice in the database's own words."""
        return self.statements.condition(part)

    def now(self) -> datetime:
        """The time of the snapshot, by the server's clock if it tells."""
        if self._held_at is None:
            _ = self.statements  # takes the snapshot
            self._held_at = self.session.held_at() or self._opened_at
        return self._held_at

    def count(self, part: Slice, *, latest: Latest | None = None) -> int:
        """Rows of the slice, counted by the source; once, where its snapshot stands."""
        if latest is None and part in self._stats and self.has_snapshot():
            return self._stats[part].rows
        ((rows,),) = self.session.rows(self.statements.count(part, latest))
        return int(rows)

    def has_snapshot(self) -> bool:
        """Whether one snapshot holds every answer and every row that Spark reads."""
        return self.session.has_snapshot

    def verify_unchanged(self) -> None:
        """Raises SourceMoved when no snapshot held the source and it changed."""
        self.session.verify_unchanged()

    def at_bound(self) -> SliceStats:
        """Of what was asked up to the safe bound."""
        return upto_bound(self._stats, self.safe_bound())

    def cancel(self) -> None:
        """At the database."""
        self.session.cancel()

    def notes(self) -> tuple[str, ...]:
        """Who holds the edge."""
        return tuple(self._notes)

    def _newest(self, cursor: Sequence[str], known: NewestRows | None) -> NewestRows | None:
        """The newest rows of now; those that are known where the source was opened without a bound."""
        upto = self.safe_bound()
        if self._late is None or upto is None:
            return known
        asked = newest_by(self.statements, cursor[0], self.session.unique_sets(self._relation))
        return asked.at(self.session, self.statements, upto, known) if asked is not None else None

    def _asked(self, where: str | None, statement: Callable[[str | None], str | None]) -> list[Row]:
        """The rows of a statement, asked place by place where the rows of `where` are worth it; None for never."""
        cuts = () if where is None else self._cuts(where)
        return self.session.parallel(self._relation, [sql for cut in cuts or (None,) if (sql := statement(cut))])

    def _cuts(self, condition: str) -> Sequence[str]:
        """Places of the table that are asked side by side, where the rows are worth more than one connection."""
        if self.session.connections == 1 or self._kept is not None:
            return ()
        rows = self.session.estimate(self._relation, condition)
        whole = self.session.estimate(self._relation, "1 = 1")
        return self.session.cuts(self._relation, PIECES) if rows >= max(SPLIT_ROWS, whole // 5) else ()

    def _about(self, part: Slice) -> int:
        """Rows of the slice: as they were counted, else as the database estimates them."""
        known = self._stats.get(part)
        return known.rows if known else self.session.estimate(self._relation, self.statements.condition(part))

    def _described(self) -> Statements:
        schema = self._columns()
        if self._mapping is not None:
            self._unloaded = self._mapping.unloaded_changes(schema)
            left_out = {change.column for change in self._unloaded}
            columns = tuple(column for column in schema if column.name not in left_out)
            rescued = (RESCUED,) if self._mapping.rescues(self._unloaded) else ()
            self._casts = self._mapping.casts(schema)
            schema = replace(schema, columns=(*columns, *rescued))
        casts = {change.column: cast for change, cast in self._casts.items()}
        kept = (replace(each, type=casts[each.name].table) if each.name in casts else each for each in schema)
        schema, at = replace(schema, columns=tuple(kept)), self.session.in_snapshot(self._relation)
        found = Statements(dialect=self._dialect, relation=at, schema=schema, casts=casts)
        return found if self._kept is None else retained(found, self._kept)

    def _columns(self) -> Schema:
        schema = described(self.session, self._relation, self._selection)
        if self._mapping is not None and self._mapping.keeps and schema.find(RESCUED.name) is not None:
            raise SchemaRefused(
                f"{self._relation.label} has a column {RESCUED.name!r}, which is the name of the column for rescued "
                f"data",
                hint="Rename it with a `query:`.",
                column=RESCUED.name,
            )
        return schema


def _restored(reason: str | None) -> str | None:
    return reason and f"the source was restored and has been written to since: {reason}"
