"""Answers questions of strategies and verification about rows that only Spark can read.

Used for files and lake tables, safe for several threads. Never starts Spark for what is known from metadata.
"""

from __future__ import annotations

import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tidegate.core.batch import Latest
from tidegate.core.bounds import BoundRequest, SequenceBound, beyond
from tidegate.core.bucketing import Buckets, RowDigest
from tidegate.core.changes import SafeBound, SliceStats, upto_bound
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.grouping import Grouping
from tidegate.core.plan import Prune
from tidegate.core.ports.dialect import Relation
from tidegate.core.ports.source import Probe, SparkProvider
from tidegate.core.schema import Column, Kind, Schema
from tidegate.core.slices import Everything, Partition, Range, Slice
from tidegate.dialects.shared.buckets import scope
from tidegate.dialects.shared.statements import Statements
from tidegate.dialects.shared.time_bounds import latest, lowered, must_be_time
from tidegate.dialects.spark import Spark
from tidegate.errors import ConfigError, InternalError, SourceError, TidegateError, WriteError
from tidegate.spark.failures import translate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LISTED_KEYS = 100
HINT = "Check the source; `--log-level debug` shows Spark's own message."


def _nothing() -> None:
    """Rows of one version cannot change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The rows of a source as of one moment, and what is known of them without Spark.

    Args:
        label: how people call them.
        identity: see `Probe.identity`.
        schema: asked once; may start Spark where nothing else tells.
        rows: the columns of `schema` in order, with its stored types; gives the same rows every time.
        version, clock: see `Probe`.
        count: how many rows, exactly; None when only counting tells.
        verify_unchanged: see `Probe.verify_unchanged`.
    """

    label: str
    identity: str
    schema: Callable[[], Schema]
    rows: Callable[[SparkSession], DataFrame]
    version: str | None = None
    clock: int | None = None
    count: int | None = None
    verify_unchanged: Callable[[], None] = _nothing


class LazySpark:
    """A session that starts with the first question that needs one."""

    def __init__(self, sparks: SparkProvider | None) -> None:
        self._sparks = sparks
        self._session: SparkSession | None = None
        self._lock = threading.Lock()

    def session(self) -> SparkSession:
        """The session, the same every time.

        Raises:
            InternalError: the source was opened for questions that need no Spark.
            EnvironmentMissing: Spark cannot be reached.
        """
        with self._lock:
            if self._sparks is None:
                raise InternalError("a source that was opened without Spark was asked for its rows")
            if self._session is None:
                self._session = self._sparks.load_session()
            return self._session

    def close(self) -> None:
        """Ends the session, if there is one."""
        with self._lock:
            if self._sparks is not None and self._session is not None:
                self._sparks.release(self._session)
            self._session = None


class FrameProbe(Probe):
    """Questions to the rows of one moment, answered by Spark's own SQL."""

    def __init__(self, frame: Frame, spark: LazySpark) -> None:
        self.frame = frame
        self._found_at = datetime.now(UTC)
        self.bound: BoundRequest | None = None
        self._spark = spark
        self._view = f"tidegate_{uuid.uuid4().hex}"
        self._lock = threading.RLock()
        self._statements: Statements | None = None
        self._viewed = False
        self._stats: dict[Slice, SliceStats] = {}
        self._edge: SafeBound | None = None

    @property
    def statements(self) -> Statements:
        """The questions as SQL over a view of the rows."""
        with self._lock:
            if self._statements is None:
                relation = Relation(sql=Spark().quote(self._view), label=self.frame.label)
                self._statements = Statements(dialect=Spark(), relation=relation, schema=self.frame.schema())
            return self._statements

    def schema(self) -> Schema:
        """The columns that a load reads."""
        return self.statements.schema

    def identity(self) -> str:
        """What the rows belong to; another text means another history."""
        return self.frame.identity

    def clock(self) -> int | None:
        """A number that only grows while the history goes on."""
        return self.frame.clock

    def version(self) -> str | None:
        """A text that no other rows of this source have."""
        return self.frame.version

    def unique(self, key: Sequence[str]) -> bool:  # noqa: ARG002 - whatever the key is
        """Never: nothing keeps two rows of one key out of files."""
        return False

    def edge(self) -> SafeBound:
        """The greatest value that is not yet to come, less the lag; asked once.

        Nobody writes into what is there already, but more may be added to it.
        """
        with self._lock:
            if self._edge is None:
                self._edge = self._found_edge()
            return self._edge

    def _found_edge(self) -> SafeBound:
        bound = self.bound
        if bound is None:
            raise InternalError("a source that was opened without a bound was asked for one")
        found = self.statements.column(bound.column)
        if isinstance(bound, SequenceBound):
            if found.type.kind is not Kind.INTEGER:
                raise ConfigError(f"column {bound.column!r} is {found.type}, and a sequence needs an integer")
            return SafeBound(upto=self._greatest(bound.column), final=False)
        must_be_time(bound.column, found.type)
        clock = latest(self.now(), found.type, bound.time_zone)
        upto = self._greatest(*filter(None, (bound.column, bound.fallback)), clock=clock)
        if upto is not None and bound.lag:
            upto = lowered(upto, bound.lag, found.type)
        return SafeBound(upto=upto, final=False, clock=clock)

    def stats(self, part: Slice) -> SliceStats:
        """Rows and last cursor of a slice; asked once, and not at all where the source knows."""
        if isinstance(part, Everything) and self.frame.count is not None:
            return SliceStats(rows=self.frame.count)
        if part not in self._stats:
            ((rows, last, later, greatest),) = self.ask(self.statements.stats(part))
            found = SliceStats(rows=rows, last=last, later=later, greatest=greatest)
            self._stats[part] = found
            if isinstance(part, Range) and last is not None:
                # Up to the last row seen is the same slice, and the one that gets loaded.
                self._stats[replace(part, upto=last)] = found
        return self._stats[part]

    def key_bounds(self, part: Slice, column: str) -> Prune | None:
        """Least and greatest value of a column in a slice, and all of them if they are few."""
        statements = self.statements
        if not statements.has_order(column):
            return None
        ((rows, low, high),) = self.ask(statements.key_bounds(part, column))
        if low is None:
            return None
        few = self.ask(statements.values(part, column, LISTED_KEYS)) if rows <= LISTED_KEYS else []
        values = tuple(sorted(row[0] for row in few))
        return Prune(column=column, type=statements.column(column).type, low=low, high=high, values=values)

    def fingerprint(self, part: Slice, *, latest: Latest | None = None) -> Fingerprint:
        """Fingerprint of the slice's rows."""
        from tidegate.spark import dataframe_ops  # noqa: PLC0415 - rows are looked at, Spark is running

        with reading(self.frame.label):
            return dataframe_ops.fingerprint(self.rows(part, latest), Spark().steps(self.schema().columns))

    def count(self, part: Slice, *, latest: Latest | None = None) -> int:
        """Rows of the slice, counted."""
        with reading(self.frame.label):
            return self.rows(part, latest).count()

    def partitions(
        self, grouping: Grouping, *, since: Partition | None = None, only: Sequence[Slice] = ()
    ) -> Mapping[Slice, Fingerprint]:
        """Fingerprint of every partition that has rows, by one pass."""
        statements = self.statements
        found: defaultdict[Slice, Fingerprint] = defaultdict(Fingerprint)
        by, where = statements.bucket(grouping).value, statements.among(scope(since, only))
        for bucket, one in self._grouped(by, where, self.schema().columns).items():
            found[statements.partition(grouping, bucket)] += one
        self._stats |= {part: SliceStats(rows=one.rows) for part, one in found.items()}
        return found

    def quick_hashes(self, grouping: Grouping, *, since: Partition | None = None) -> Mapping[Slice, str]:
        """Spark's own hash of every partition, over all columns."""
        statements = self.statements
        asked = statements.quick_hashes(statements.bucket(grouping), scope(since, ()))
        found: defaultdict[Slice, tuple[int, int]] = defaultdict(lambda: (0, 0))
        for bucket, rows, total in self.ask(asked or ""):
            part = statements.partition(grouping, bucket)
            found[part] = (found[part][0] + rows, found[part][1] + int(total))
        digest = self.schema().digest
        return {part: f"spark:{rows}:{total}:{digest}" for part, (rows, total) in found.items()}

    def spread(
        self, part: Slice, key: Sequence[str], buckets: Buckets, *, latest: Latest | None = None
    ) -> Mapping[str, Fingerprint]:
        """Fingerprint of every bucket of the slice that has rows, by one pass."""
        statements = self.statements
        where = f"{statements.condition(part)} AND {statements.within(key, buckets)}"
        if buckets.width is not None:
            found = self.ask(statements.spread_of(key, buckets, where, None, latest))
            return {str(bucket): Fingerprint.of_sums(sums) for bucket, *sums in map(tuple, found)}
        covered = [statements.column(name) for name in key] if buckets.keys else self.schema().columns
        hashed = self._grouped(statements.spread(key, buckets.count).value, where, covered, latest)
        return {str(name): one for name, one in hashed.items()}

    def digests(
        self, part: Slice, key: Sequence[str], buckets: Buckets, *, latest: Latest | None = None
    ) -> Sequence[RowDigest]:
        """The rows of the named buckets by key and md5, also those beyond the slice."""
        statements = self.statements
        asked = statements.digests(key, part, statements.within(key, buckets), keys=buckets.keys, latest=latest)
        return [
            RowDigest(key=tuple(values), digest=digest, inside=bool(inside))
            for *values, digest, inside in map(tuple, self.ask(asked))
        ]

    def condition(self, part: Slice) -> str:
        """The slice in Spark's words."""
        return self.statements.condition(part)

    def now(self) -> datetime:
        """The time at which the rows were found."""
        return self._found_at

    def has_snapshot(self) -> bool:
        """Always: the rows are those of one moment, however often they are read."""
        return True

    def verify_unchanged(self) -> None:
        """What the source says of it."""
        self.frame.verify_unchanged()

    def at_bound(self) -> SliceStats:
        """Of what was asked up to the bound."""
        return upto_bound(self._stats, self._edge.upto) if self._edge is not None else SliceStats(rows=0)

    def notes(self) -> tuple[str, ...]:
        """None."""
        return ()

    def session(self) -> SparkSession:
        """The probe's own session, in which the rows are a view."""
        session = self._spark.session()
        with self._lock:
            if not self._viewed:
                with reading(self.frame.label):
                    self.frame.rows(session).createOrReplaceTempView(self._view)
                self._viewed = True
        return session

    def rows(self, part: Slice, latest: Latest | None = None) -> DataFrame:
        """The rows of a slice in the probe's own session; the latest of each key if `latest` is given."""
        text = f"SELECT * FROM {self.statements.rows(part, latest)}"
        return self.session().sql(text)

    def ask(self, statement: str) -> list[Any]:
        """The rows of a statement over the view."""
        session = self.session()
        with reading(self.frame.label):
            return list(session.sql(statement).collect())

    def _grouped(
        self, by: str, where: str, columns: Sequence[Column], latest: Latest | None = None
    ) -> Mapping[str | None, Fingerprint]:
        from tidegate.spark import dataframe_ops  # noqa: PLC0415 - rows are looked at, Spark is running

        rows = self.session().sql(f"SELECT * FROM {self.statements.rows_where(where, latest)}")
        with reading(self.frame.label):
            return dataframe_ops.partitions(rows, by=by, steps=Spark().steps(columns))

    def _greatest(self, *columns: str, clock: str | None = None) -> str | None:
        """Of the first of these columns that is not NULL, over all rows; at most what the clock may show.

        Of rows with a time to come, only a look at every row tells what is below it.
        """
        found, spark = self.statements.column(columns[0]), Spark()
        cursor = f"coalesce({', '.join(map(spark.quote, columns))})"

        def asked(value: str) -> str | None:
            ((text,),) = self.ask(f"SELECT {spark.text(f'max({value})', found)} FROM {self.statements.relation.sql}")
            return text if text is None else str(text)

        greatest = asked(cursor)
        if greatest is None or clock is None or not beyond(greatest, clock):
            return greatest
        return asked(f"CASE WHEN {spark.compared(cursor, '<=', found.type, clock)} THEN {cursor} END") or clock


@contextmanager
def reading(label: str) -> Iterator[None]:
    """Turns every failure of Spark inside into an error of the source, with the original as its cause."""
    try:
        yield
    except TidegateError:
        raise
    except Exception as error:
        found = translate(error, f"reading {label}")
        if not isinstance(found, WriteError):
            raise found from error
        of_lake = found.hint == WriteError.default_hint or "warehouse" in found.message
        raise SourceError(found.message, hint=HINT if of_lake else found.hint) from error
