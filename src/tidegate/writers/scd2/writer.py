"""The writer `scd2`: keeps every version of a row, with its validity period.

Versions of a key never overlap. A change that states when it took effect is never dated by its load.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from tidegate.core.batch import Batch, Checked, ComparisonScope, Dated, Latest
from tidegate.core.display import counted, done_by
from tidegate.core.effects import EFFECTS, Apply, Effect, Insert, Mirror, Upsert
from tidegate.core.plan import LoadPlan, Mode, WriteChoice, WriteFacts
from tidegate.core.ports.format import Staging
from tidegate.core.ports.writer import VersionedWriter, Writer
from tidegate.core.schema import BOOLEAN, INT, TEXT, Column, Kind, Schema, Type
from tidegate.core.yaml_text import listed
from tidegate.errors import (
    CheckFailed,
    ConfigError,
    DuplicateKeys,
    InternalError,
    PlanError,
    SchemaRefused,
    VerifyFailed,
)
from tidegate.spark import dataframe_ops
from tidegate.spark.dataframe_ops import DELETED, MOMENT
from tidegate.spark.failures import translated
from tidegate.spark.sql import names, quote
from tidegate.writers._batch import measure_batch
from tidegate.writers._modes import as_present, kept
from tidegate.writers.scd2 import changes, versions
from tidegate.writers.scd2 import event_history as events
from tidegate.writers.scd2 import history as histories
from tidegate.writers.scd2 import validity as dates
from tidegate.writers.scd2.history import AT, History

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

AGAIN = "Run a full refresh, which discards the history: `tidegate run STREAM --full-refresh --yes`."


_WENT, _HERE, _BEGAN = "__tidegate_went", "__tidegate_here", "__tidegate_began"
_BEFORE, _NEXT = "__tidegate_ended_before", "__tidegate_next"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scd2(Writer):
    """Keeps every version of a row: a change closes the previous version, a delete closes the last one.

    Args:
        valid_from: the name of the column with the start of a version, inclusive.
        valid_to: the name of the column with the end of a version, exclusive.
        is_current: the name of the column that is true for the version that the source holds now.
        far_date: the value of `valid_to` in a version that still holds, such as `9999-12-31`; NULL unless given.
        version: the name of a column that numbers the versions of a key from 1; none unless given.
        row_hash: the name of a column with the md5 of the tracked columns; none unless given.
        sequence_by: the columns whose first value that is not NULL says when a change took effect; unless given, the
            strategy's cursor, or else the time of the load.
        track_history: the columns of which a change creates a version, all unless given; others are updated in place.
    """

    kind: ClassVar[str] = "scd2"
    accepts: ClassVar[frozenset[type[Effect]]] = EFFECTS
    needs_key: ClassVar[bool] = True
    idempotent: ClassVar[bool] = True
    deletes_by_key: ClassVar[bool] = False

    valid_from: str = "valid_from"
    valid_to: str = "valid_to"
    is_current: str = "is_current"
    far_date: str | None = None
    version: str | None = None
    row_hash: str | None = None
    sequence_by: tuple[str, ...] = ()
    track_history: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        own = [name.casefold() for name in self.own]
        if len(set(own)) < len(own):
            raise ConfigError(f"write: scd2 needs different names for its columns: {', '.join(self.own)}")
        if self.far_date is not None:
            dates.parsed(self.far_date)

    @property
    def versions(self) -> VersionedWriter:
        return self

    @property
    def current(self) -> str:
        """The condition of the rows that the source holds now."""
        return quote(self.is_current)

    @property
    def own(self) -> tuple[str, ...]:
        """The names of the columns of the history, in order."""
        named = (self.version, self.row_hash)
        return (self.valid_from, self.valid_to, self.is_current, *(name for name in named if name is not None))

    @property
    def known(self) -> str:
        """When it began, or ended if it has."""
        begin, end = quote(self.valid_from), quote(self.valid_to)
        return f"CASE WHEN {self.current} THEN {begin} ELSE greatest({begin}, {end}) END"

    @property
    def signature(self) -> str:
        return f"scd2:{hashlib.sha256(repr(astuple(self)).encode()).hexdigest()[:12]}"

    def renamed(self, names: Mapping[str, str]) -> Scd2:
        tracked, sequence = (
            tuple(names.get(name, name) for name in part) for part in (self.track_history, self.sequence_by)
        )
        return replace(self, track_history=tracked, sequence_by=sequence)

    @property
    def partition_by(self) -> tuple[str, ...]:
        """Current versions apart from the others, so that a load does not read what has long ended."""
        return (self.is_current,)

    def moment(self, cursor: Sequence[str]) -> str | None:
        """The first value of the sequence that is not NULL."""
        sequence = self.sequence_by or tuple(cursor)
        return f"coalesce({', '.join(map(quote, sequence))})" if sequence else None

    def added(self, columns: Schema, cursor: Sequence[str]) -> tuple[Column, ...]:
        """The columns of the history; those of time have the type of the sequence, a timestamp where there is none."""
        for name in self.track_history:
            dates.needed(columns, name, "track_history")
        moment = dates.type_of(columns, self.sequence_by or tuple(cursor), far=self.far_date)
        types = [moment, moment, BOOLEAN, *([INT] if self.version else []), *([TEXT] if self.row_hash else [])]
        known = {name.casefold(): name for name in columns.names}
        for name in self.own:
            if other := known.get(name.casefold()):
                raise SchemaRefused(
                    f"the source has a column {other!r}, and write: scd2 has its own column of that name",
                    hint=f"Leave it out: `source: {{exclude: {listed((other,))}}}`. Or name the own column otherwise, "
                    f"`write: {{kind: scd2, {self._option(name)}: …}}`, which a table that was loaded takes with "
                    "`--full-refresh --yes` alone, and loses its history.",
                    column=other,
                )
        return tuple(Column(name=name, type=type_) for name, type_ in zip(self.own, types, strict=True))

    def choose(self, facts: WriteFacts) -> WriteChoice:
        """A merge of the versions that differ, except for an empty table or a full refresh."""
        if facts.reset:
            return WriteChoice(mode=Mode.OVERWRITE, reason="a full refresh replaces every row, and all of the history")
        if facts.table_rows == 0:
            return WriteChoice(mode=Mode.APPEND, reason="the table is empty, so every history starts here")
        prune = (facts.keys.bounds,) if facts.keys.bounds else ()
        if isinstance(facts.effect, Mirror) and facts.effect.of is None:
            reason = "every row is compared by key with its current version, and each change adds a new version"
            return WriteChoice(mode=Mode.MERGE_DIFFERENCES, reason=reason)
        reason = "the history of each changed key is rebuilt, and the differences are merged"
        return WriteChoice(mode=Mode.MERGE_ON_READ, reason=reason, prune=prune)

    def check(self, rows: DataFrame, plan: LoadPlan, batch: Batch) -> Checked:
        """The rows as changes, each with its moment where it says one.

        Raises:
            CheckFailed: a NULL in a key column or in the sequence, or an event that cannot be placed.
            DuplicateKeys: the source holds two rows of one key now.
            PlanError: an option of the strategy that means nothing to a history.
        """
        if isinstance(plan.changes.effect, Mirror) and plan.changes.effect.ignore is not None:
            raise PlanError(
                "significant_change skips small differences, but write: scd2 records every one of them",
                hint="Remove `significant_change:` from the strategy, or use write: merge.",
            )
        history = self._history(plan, self.sequence_by or (batch.latest.order if batch.latest else ()))
        if isinstance(plan.changes.effect, Apply):
            rows = as_present(rows, batch.current, plan, dated=bool(history.sequence))
            return events.check(rows, plan, batch, history)
        if plan.write.mode in versions.BEGINS and batch.keys_unique and _always_dated(plan, history):
            # Each row is the one version of its key, whatever it holds: there is nothing to look at.
            frame = changes.of_rows(rows, history)
            return Checked(
                frame=frame,
                compared=ComparisonScope(where=self.current),
                dated=Dated(sequence=history.sequence, unique=True),
            )
        held = kept(rows, batch)
        try:
            with translated(f"reading the rows for {plan.stream.target}"):
                found = self._measured(changes.of_rows(held, history), held, plan, batch, history)
                return replace(found, dated=replace(found.dated, placed=MOMENT in rows.columns))
        except BaseException:
            held.unpersist()
            raise

    def latest(self, key: tuple[str, ...], cursor: tuple[str, ...]) -> Latest:
        """The greatest sequence: the current version is the last one."""
        sequence = self.sequence_by or cursor
        return Latest(key=key, cursor=sequence, order=()) if len(sequence) > 1 else Latest(key=key, order=sequence)

    def write(self, checked: Checked, plan: LoadPlan, staging: Staging) -> Checked:
        """One commit: the versions of the keys that changed, as far as they differ from those that are stored.

        Raises:
            DuplicateKeys: a row of the batch and a stored one differ and have one sequence.
            CheckFailed: the source went back to a row of an older sequence.
        """
        return versions.write(checked, plan, staging, self._history(plan, checked.dated.sequence))

    def currently(self, checked: Checked, plan: LoadPlan, staging: Staging) -> DataFrame:
        """The current versions that `write` would leave."""
        return versions.currently(checked, plan, staging, self._history(plan, checked.dated.sequence))

    def moments(self, plan: LoadPlan) -> Type | None:
        """The type of `valid_from` where the stream names columns that date an event."""
        column = plan.table.find(self.valid_from)
        return column.type if column is not None and self.sequence_by else None

    def prove(self, checked: Checked, plan: LoadPlan, staging: Staging) -> None:
        """Of each key that was touched no versions overlap, and one at most is current, as committed.

        Raises:
            VerifyFailed: they do.
        """
        if plan.write.mode in versions.BEGINS and checked.dated.unique:
            return  # one version a key, of which the rows are compared
        history = self._history(plan, checked.dated.sequence)
        keys = checked.keys.select(*map(quote, plan.key)) if checked.keys is not None else None
        found = staging.read_keys(keys, prune=checked.prune).where(checked.dated.touched or "true")
        with translated(f"reading {plan.stream.target}"):
            wrong = histories.wrong(found, history)
        if wrong:
            raise VerifyFailed(
                f"stream {plan.stream.name!r}: {counted(wrong, 'key')} of {plan.stream.target} "
                f"{done_by(wrong, 'have')} versions that overlap, or "
                "several that are current: another process wrote to the table",
                hint=AGAIN,
                load_id=plan.load_id,
            )

    def replayed(  # noqa: PLR0913 - what is known of rows that waited
        self, rows: DataFrame, plan: LoadPlan, cursor: Sequence[str], *, stored: DataFrame, at: str, ended: str
    ) -> DataFrame:
        """Rows with the moments at which they took effect, and where a row has ended; see `QuarantinedVersions`."""
        waited = QuarantinedVersions(
            key=plan.key,
            stated=self.moment(cursor),
            type=dates.type_of(plan.columns, self.sequence_by or tuple(cursor), far=self.far_date),
            at=at,
            ended=ended,
            valid_from=self.valid_from,
            valid_to=self.valid_to,
            current=self.current,
        )
        return waited.changes(rows, stored, plan.columns.names)

    def unseen(self, checked: Checked, plan: LoadPlan, staging: Staging) -> int:
        keys = checked.frame.select(*map(quote, plan.key)).distinct()
        stored = staging.read_keys(keys, prune=checked.prune)
        return histories.lacking(checked.frame, stored, self._history(plan, checked.dated.sequence))

    def _measured(self, frame: DataFrame, held: DataFrame, plan: LoadPlan, batch: Batch, history: History) -> Checked:
        effect = plan.changes.effect
        dated = isinstance(effect, Insert | Upsert) and bool(history.sequence)
        by = (*plan.key, AT) if dated else plan.key
        moments = {AT: history.type} if dated else {}
        found, prune = measure_batch(frame, plan, key=by, count_keys=not batch.keys_unique, moments=moments)
        if found.null_keys or (history.sequence and not dated):
            _refuse_nulls(frame, plan, history)
        twice = found.keys is not None and found.keys < found.rows
        if twice and isinstance(effect, Mirror):
            raise DuplicateKeys(
                f"the source has several rows with the same key ({', '.join(plan.key)})",
                hint="Set `key:` to the columns that identify a row of the source.",
            )
        # Where each row makes a version, each is found again by its moment; else of each key the current one.
        every = dated and set(history.tracked) == set(plan.columns.names)
        keys = frame.selectExpr(*map(quote, plan.key), *([f"{AT} AS {quote(self.valid_from)}"] if every else []))
        latest = Latest(key=plan.key, order=history.sequence)
        if every:
            latest = Latest(key=(*plan.key, *history.sequence), order=())
        alone = isinstance(effect, Mirror) or batch.keys_unique or (every and not twice)
        return Checked(
            frame=frame,
            rows=found.rows if found.keys is None else found.keys,
            keys=None if isinstance(effect, Mirror) else keys if batch.keys_unique else keys.distinct(),
            prune=prune,
            compared=ComparisonScope(latest=None if alone else latest, where=None if every else self.current),
            dated=Dated(sequence=history.sequence, moments=found.bounds.get(AT), unique=batch.keys_unique),
            held=held,
        )

    def _history(self, plan: LoadPlan, sequence: tuple[str, ...]) -> History:
        column = plan.table.find(self.valid_from)
        if column is None:
            raise InternalError(f"a plan of write: scd2 without the column {self.valid_from!r}")
        return History(
            columns=plan.columns,
            key=plan.key,
            tracked=self.track_history or plan.columns.names,
            sequence=sequence,
            type=column.type,
            valid_from=self.valid_from,
            valid_to=self.valid_to,
            is_current=self.is_current,
            version=self.version,
            row_hash=self.row_hash,
            far=None if self.far_date is None else dates.moment(dates.parsed(self.far_date), column.type),
        )

    def _option(self, column: str) -> str:
        own = ("valid_from", "valid_to", "is_current", "version", "row_hash")
        return next(name for name in own if getattr(self, name) == column)


def _always_dated(plan: LoadPlan, history: History) -> bool:
    """Whether each row says when it took effect, where rows do."""
    dating = (plan.columns.find(name) for name in history.sequence)
    return not history.sequence or any(column is not None and not column.nullable for column in dating)


def _refuse_nulls(frame: DataFrame, plan: LoadPlan, history: History) -> None:
    """Raises CheckFailed where a row cannot be placed."""
    missing = " OR ".join(f"{quote(name)} IS NULL" for name in plan.key)
    keyless, undated = dataframe_ops.count_if(frame, missing, f"NOT {DELETED} AND {AT} IS NULL")
    if keyless:
        raise CheckFailed(
            f"{counted(keyless, 'row', 'have')} no value in a key column ({', '.join(plan.key)})",
            hint="Use a key that is never NULL, or filter out these rows with a `query:`.",
        )
    if undated and history.sequence and not versions.repairs(plan):
        raise CheckFailed(
            f"{counted(undated, 'row', 'have')} no value in the sequence ({', '.join(history.sequence)}), so it "
            f"is unknown when they "
            f"took effect",
            hint="Use a column that is never NULL: `write: {kind: scd2, sequence_by: …}`, or filter these rows.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedVersions:
    """What is known of rows that waited.

    Args:
        key: of the stream.
        stated: the moment that a row states itself, as SQL; None where the load that read it dates it.
        type: of the moments.
        at: when a row was read, as SQL.
        ended: when a load found that the source has no such row any more, or another one, as SQL; NULL where none did.
        valid_from, valid_to: the columns of the versions.
        current: whether a version holds now, as SQL.
    """

    key: Sequence[str]
    stated: str | None
    type: Type
    at: str
    ended: str
    valid_from: str
    valid_to: str
    current: str

    @property
    def counts_time(self) -> bool:
        """Whether its moments can be compared with the times of loads."""
        return self.type.kind is not Kind.INTEGER

    def changes(self, rows: DataFrame, stored: DataFrame, columns: Sequence[str]) -> DataFrame:
        """The rows with the moments at which they took effect, and what went where a row has ended.

        Rows: `columns`, `DELETED` and `MOMENT`. A row that was read after a load had found its key deleted comes after
        that, whatever it says of itself; one that another version follows ends with that one's beginning, and not
        later by the load that found it gone. Where a version of before still holds then, the source went back to it.

        Args:
            stored: every version of the table.
        """
        placed = self._placed(rows, stored)
        values, moment = [quote(name) for name in columns], quote(MOMENT)
        end = f"greatest({dates.from_time(self.ended, self.type)}, {dates.later(moment, self.type)})"
        within = f" AND b <= {end}" if self.counts_time else ""
        followers = f"array_append({_BEGAN}, {_NEXT})"
        followed = f"exists(coalesce({followers}, array({_NEXT})), b -> coalesce(b > {moment}{within}, false))"
        end = end if self.counts_time else "NULL"  # which comes after all that is known of the key
        ended = placed.where(f"{self.ended} IS NOT NULL AND NOT {followed}")
        ended = ended.selectExpr(*values, f"true AS {DELETED}", f"CAST({end} AS {self.type.stored.spark}) AS {MOMENT}")
        found = placed.selectExpr(*values, f"false AS {DELETED}", moment)
        if self.stated is not None:
            return found.unionAll(ended)
        back = self._still_there(ended, stored).selectExpr(*values, f"false AS {DELETED}", moment)
        deletes = dataframe_ops.without_keys(ended, back, (*self.key, MOMENT))
        return found.unionAll(back).unionAll(deletes.selectExpr(*values, DELETED, moment))

    def _still_there(self, ended: DataFrame, stored: DataFrame) -> DataFrame:
        """The versions in the table that began before such an end and hold beyond it."""
        at = ended.selectExpr(*map(quote, self.key), quote(MOMENT))
        holds = f"{quote(self.valid_from)} < {MOMENT} AND ({self.current} OR {quote(self.valid_to)} > {MOMENT})"
        return stored.join(at, on=list(self.key), how="inner").where(holds)

    def _placed(self, rows: DataFrame, stored: DataFrame) -> DataFrame:
        """The rows with their moments, when the versions of their keys began, and when the next row that waited did."""
        keys, kind = [quote(name) for name in self.key], self.type.stored.spark
        known = dataframe_ops.of_keys(stored, rows.select(*keys), tuple(self.key)).selectExpr(
            *keys,
            f"IF({self.current}, NULL, {quote(self.valid_to)}) AS {_WENT}",
            f"IF({self.current}, 1, 0) AS {_HERE}",
            f"CAST({quote(self.valid_from)} AS {kind}) AS {_BEGAN}",
        )
        asked = {_WENT: "max", _HERE: "max", _BEGAN: "collect_set"}
        known = known.groupBy(*self.key).agg(asked)
        known = known.withColumnsRenamed({f"{how}({name})": name for name, how in asked.items()})
        each = f"PARTITION BY {names(self.key)} ORDER BY"
        # Rows of the key that waited before may have ended, too.
        before = f"max({self.ended}) OVER ({each} {self.at} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
        joined = rows.join(known, on=list(self.key), how="left").selectExpr("*", f"{before} AS {_BEFORE}")
        placed = joined.selectExpr("*", f"CAST({self._moment()} AS {kind}) AS {MOMENT}")
        return placed.selectExpr("*", f"lead({MOMENT}) OVER ({each} {MOMENT}) AS {_NEXT}")

    def _moment(self) -> str:
        if self.stated is None:
            return self.at
        if not self.counts_time:
            return self.stated
        read = dates.from_time(self.at, self.type)
        end = f"greatest({_WENT}, {dates.from_time(_BEFORE, self.type)})"
        after = f"coalesce({_HERE}, 0) = 0 AND {self.stated} <= {end} AND {read} > {end}"
        return f"CASE WHEN {after} THEN {read} ELSE {self.stated} END"
