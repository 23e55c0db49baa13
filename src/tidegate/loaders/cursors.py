"""Loaders that find new rows by an increasing column: a timestamp or a number.

The watermark itself does not count as loaded: more rows with that value may arrive.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tidegate.core.batch import Latest
from tidegate.core.position import Position
from tidegate.core.schema import Kind
from tidegate.errors import ColumnMissing, ConfigError
from tidegate.loaders._applying import LoadResult, sink_of
from tidegate.loaders._batches import Batch, key_of, need_columns, new_rows, not_outdated, one_a_key, refuse
from tidegate.loaders._cursor import NUMBERS, TIMES, Cursor
from tidegate.loaders._places import short_name
from tidegate.loaders._sink import Sink
from tidegate.loaders.incremental import IncrementalLoader
from tidegate.spark.failures import translated

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CHANGED = re.compile(
    r"last_?(modified|updated?|changed?)|(last_?)?(modified|updated?|changed?)_?(at|on|date|time|ts|timestamp)",
    re.IGNORECASE,
)


class TimestampBasedLoader(IncrementalLoader):
    """Loads rows whose date or time is new; see `IncrementalLoader` for the arguments."""

    kind = "timestamp"

    def load_incremental(  # noqa: PLR0913, PLR0917 - what a load is told
        self,
        source_path: str,
        target_path: str,
        watermark_path: str,
        timestamp_column: str | None = None,
        table_name: str | None = None,
        lookback: timedelta | None = None,
        *,
        primary_key: str | Sequence[str] | None = None,
        on_null: str = "stop",
    ) -> LoadResult:
        """Loads the rows at or after the watermark, less the lookback, that the target does not hold yet.

        With a key the target has one row a key, the latest; without one every row is kept, as often as it comes. A row
        that comes later with a time before the watermark and beyond the lookback is not seen.

        Args:
            timestamp_column: a date, a timestamp with or without zone, or a text that sorts as its times do. Without
                it the loader follows the column that the target was loaded by; at a first load the one column of the
                source whose name says that it tells the last change, such as `modified_date` or `updated_at`.
            lookback: how far before the watermark rows are looked at again.
            on_null: `stop` when a row has no time, or `skip` such rows.

        Raises:
            ColumnMissing: the source has no such column, or none is given and none or several could be meant.
            ConfigError: the column cannot be followed, or its type is another one than at the last load.
            CheckFailed: a row without a time or key, too many rows, a NULL that `not_null` forbids.
            DuplicateKeys: rows of one key and time differ.
            PositionMissing: the target has rows that no load of this name put there.
            PositionMoved: another load of this name came in between.
        """
        column = timestamp_column or self._followed(source_path, target_path, table_name)
        batch = _batches(column, TIMES, lookback, key_of(primary_key), on_null)
        return self._load(source_path, target_path, watermark_path, table_name, batch, column)

    def _followed(self, source_path: str, target_path: str, table_name: str | None) -> str:
        """The column that the target was loaded by, or the one of the source that tells of changes."""
        name = table_name or short_name(target_path)
        with translated(f"loading {name}", target_path):
            since = sink_of(self.spark, target_path, name, self._target_format).position()
            known = since.state.get("column") if since and since.kind == self.kind else None
            return known or column_of_changes(dict(self.read(source_path).dtypes))


class SequenceBasedLoader(IncrementalLoader):
    """Loads rows whose number is new; see `IncrementalLoader` for the arguments."""

    kind = "sequence"

    def load_incremental(  # noqa: PLR0913, PLR0917 - what a load is told
        self,
        source_path: str,
        target_path: str,
        watermark_path: str,
        sequence_column: str,
        table_name: str | None = None,
        lookback: int | None = None,
        *,
        primary_key: str | Sequence[str] | None = None,
        on_null: str = "stop",
    ) -> LoadResult:
        """Loads the rows at or after the watermark, less the lookback, that the target does not hold yet.

        The result tells how many numbers are missing since the last load. A gap may be a number that was never used
        or a row that is still being written: only a lookback finds the latter when it comes.

        Args:
            sequence_column: a whole number.
            lookback: how many numbers before the watermark are looked at again.
            on_null: `stop` when a row has no number, or `skip` such rows.

        Raises:
            As `TimestampBasedLoader.load_incremental`.
        """
        batch = _batches(sequence_column, NUMBERS, lookback, key_of(primary_key), on_null)
        return self._load(source_path, target_path, watermark_path, table_name, batch, sequence_column)


def column_of_changes(fields: Mapping[str, str]) -> str:
    """The one column whose name says that it tells when a row was last changed.

    Args:
        fields: names to Spark's own names of their types.

    Raises:
        ColumnMissing: none does, or several do.
        ConfigError: it is a text, of which nobody said that it sorts as its times do.

    Example:
        >>> column_of_changes({"id": "bigint", "created_date": "date", "modified_date": "date"})
        'modified_date'
    """
    found = [name for name in fields if _CHANGED.fullmatch(name)]
    hint = "Pass `timestamp_column=`, a column that every insert and update sets."
    if len(found) != 1:
        reason = (
            "several columns could say when a row was changed" if found else "no column says when a row was changed"
        )
        raise ColumnMissing(f"{reason}: the source has {', '.join(found or fields)}", hint=hint)
    if fields[found[0]] == "string":
        raise ConfigError(
            f"column {found[0]!r} is a string, which may not sort as its times do",
            hint=f"Pass `timestamp_column={found[0]!r}` if it does, or read it as a timestamp: `schema=`.",
        )
    return found[0]


def _batches(
    column: str, kinds: frozenset[Kind], lookback: timedelta | int | None, key: tuple[str, ...], on_null: str
) -> Any:
    """The function that finds a load's batch by a cursor."""
    if on_null not in ("stop", "skip"):
        raise ConfigError(f"on_null={on_null!r} is not known", hint="Use `stop` or `skip`.")

    def batch_of(source: DataFrame, since: Position | None, sink: Sink) -> Batch:
        present = sink.read()
        cursor = Cursor.of(column, dict(source.dtypes), kinds)
        cursor.need_type(since.state.get("type") if since else None)
        need_columns(source, key)
        old = since.loaded_through if since else None
        rows = cursor.up_to_now(_without_nulls(source, cursor, on_null), old)
        low = cursor.low(old, lookback)
        if low is not None:
            rows = rows.where(cursor.at_least(low))
        if key:
            rows = one_a_key(rows, Latest(key=key, order=(column,)))
            if present is not None:
                rows = not_outdated(rows, present, key, column, equal=False)
        elif present is not None and low is not None:
            present = present.where(cursor.at_least(low))
        rows = new_rows(rows, present, key, casts=sink.casts)
        facts = _facts(rows, cursor, old)
        new = cursor.latest(old, facts[1])
        gaps = _gaps(old, facts) if cursor.type.kind in NUMBERS else None
        return Batch(rows=rows, key=key, watermark=new, gaps=gaps, type=cursor.type.spark)

    return batch_of


def _without_nulls(source: DataFrame, cursor: Cursor, on_null: str) -> DataFrame:
    if on_null == "stop":
        problem = f"a NULL in column {cursor.column!r}, so no watermark ever reaches them"
        hint = "Correct them at the source, or leave them out with `on_null='skip'`."
        refuse(source, f"{cursor.name} IS NULL", problem, hint, column=cursor.column)
    return source.where(f"{cursor.name} IS NOT NULL")


def _facts(rows: DataFrame, cursor: Cursor, old: str | None) -> tuple[str | None, str | None, int]:
    """The least and the greatest value, and how many values lie beyond the old watermark."""
    beyond = "true" if old is None else f"{cursor.name} > {cursor.literal(old)}"
    row = rows.selectExpr(
        f"{cursor.canonical(f'min({cursor.name})')} AS low",
        f"{cursor.canonical(f'max({cursor.name})')} AS high",
        f"count(DISTINCT CASE WHEN {beyond} THEN {cursor.name} END) AS found",
    ).collect()[0]
    return row[0], row[1], int(row[2])


def _gaps(old: str | None, facts: tuple[str | None, str | None, int]) -> int:
    low, high, found = facts
    if low is None or high is None or (old is not None and int(high) <= int(old)):
        return 0
    start = int(old) if old is not None else int(low) - 1
    return int(high) - start - found
