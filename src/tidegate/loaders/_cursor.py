"""A cursor column: its types, its canonical text, and its lookback.

Independent of the session's time zone; keeps fractions of a second.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from tidegate.core.bounds import beyond
from tidegate.core.display import ahead_of_clock
from tidegate.core.schema import Kind, Type
from tidegate.dialects.shared.time_bounds import latest, lowered
from tidegate.dialects.spark import Spark
from tidegate.errors import ColumnMissing, ConfigError, HistoryGone
from tidegate.sources.shared.files.types import of_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CLOCKED = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ})
CLOCKS_DIFFER = timedelta(hours=1)
"""How far the clocks of machines that load one target may differ."""
log = logging.getLogger("tidegate")
TIMES = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.TEXT})
NUMBERS = frozenset({Kind.INTEGER, Kind.DECIMAL})


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """A column whose values grow, so that they tell which rows are new.

    Args:
        column: its name.
        type: a date, a timestamp with or without zone, a text that sorts as its times do, or an integer.
    """

    column: str
    type: Type

    @classmethod
    def of(cls, column: str, fields: dict[str, str], kinds: frozenset[Kind]) -> Cursor:
        """The cursor of that name among a DataFrame's columns.

        Args:
            fields: names to Spark's own names of their types.
            kinds: the families that the loader orders by.

        Raises:
            ColumnMissing: there is no such column.
            ConfigError: its type has no order that a watermark can keep.
        """
        if column not in fields:
            raise ColumnMissing(
                f"column {column!r} is not in the source, which has {', '.join(fields)}",
                hint="Correct the name passed to the loader.",
                column=column,
            )
        name = fields[column]
        found = of_spark(name)
        if found is None or found.kind not in kinds or found.scale:
            wanted = "a date, a timestamp or a string in ISO 8601" if kinds is TIMES else "an integer"
            raise ConfigError(
                f"column {column!r} is of type {name}, which cannot be a cursor: it must be {wanted}",
                hint="Use another column, or read it with the right type: `schema=` of the loader.",
                column=column,
            )
        return cls(column=column, type=found)

    def need_type(self, known: str | None) -> None:
        """Raises ConfigError when the watermark is a text of another type, in which it means another time.

        Args:
            known: Spark's name of that type; None of a watermark that does not tell. A number is the same in every one.
        """
        if known is not None and known != self.type.spark and self.type.kind not in NUMBERS:
            raise ConfigError(
                f"column {self.column!r} is of type {self.type.spark}, and its watermark was written as {known}",
                hint=f"Read the column as {known}, by `schema=` of the loader or in a view, or load into a new target.",
                column=self.column,
            )

    @property
    def name(self) -> str:
        """The column, quoted."""
        return Spark().quote(self.column)

    def canonical(self, sql: str) -> str:
        """The expression of the text of a value: the same in every time zone, all six digits."""
        return Spark().text_of(sql, self.type)

    def literal(self, text: str) -> str:
        """The expression of the value of such a text."""
        return Spark().literal(self.type, text)

    def at_least(self, text: str) -> str:
        """The condition of rows with that value, as such a text, or a greater one."""
        return f"{self.name} >= {self.literal(text)}"

    def up_to_now(self, rows: DataFrame, watermark: str | None) -> DataFrame:
        """Without the rows whose time is ahead of the clock: a watermark there would hide all that come until then.

        A time without a zone counts as ahead only if it is ahead in every zone; a text never does.

        Args:
            watermark: of the last load.

        Raises:
            HistoryGone: it is ahead of the clock itself.
        """
        if self.type.kind not in CLOCKED:
            return rows
        clock = latest(datetime.now(UTC), self.type, None)
        if watermark is not None and beyond(watermark, clock, CLOCKS_DIFFER):
            raise HistoryGone(
                f"the target was loaded up to a time in {self.column!r} that is ahead of the clock: rows that come "
                f"with the times between would be missed",
                hint="Correct the clock if it is behind; else load again into an empty target.",
            )
        ahead = rows.where(f"{self.name} > {self.literal(clock)}").count()
        if ahead:
            log.warning("%s (%s)", ahead_of_clock(ahead), self.column)
        return rows.where(f"{self.name} <= {self.literal(clock)}")

    def low(self, watermark: str | None, lookback: timedelta | int | None) -> str | None:
        """The least value that a load looks at, inclusive, as canonical text; None for all values.

        Rows at the watermark itself are always looked at again: others of the same value may have come since.

        Args:
            lookback: how much further back, in time or in numbers.

        Raises:
            ConfigError: a lookback of the other sort, a negative one, or one for a text.

        Example:
            >>> from tidegate.core import schema as types
            >>> Cursor(column="at", type=types.TIMESTAMP).low("2025-01-01 00:00:00.000001", timedelta(hours=1))
            '2024-12-31 23:00:00.000001'
            >>> Cursor(column="id", type=types.BIGINT).low("100", 10)
            '90'
        """
        self._need(lookback)
        if watermark is None or not lookback:
            return watermark
        if isinstance(lookback, int):
            return str(int(watermark) - lookback)
        return lowered(watermark, lookback, self.type)

    def latest(self, *texts: str | None) -> str | None:
        """The greatest of the canonical texts; None when there is none."""
        known = [text for text in texts if text is not None]
        return max(known, key=Decimal if self.type.kind in NUMBERS else str, default=None)

    def _need(self, lookback: timedelta | int | None) -> None:
        if not lookback:
            return
        number = self.type.kind in NUMBERS
        if self.type.kind is Kind.TEXT:
            raise ConfigError(
                f"a lookback cannot be subtracted from column {self.column!r}, which is a string",
                hint="Read it as a timestamp: `schema=` of the loader.",
            )
        if isinstance(lookback, timedelta) is number:
            wanted = "a number such as 1000" if number else "a duration such as timedelta(hours=1)"
            raise ConfigError(f"the lookback of column {self.column!r} must be {wanted}", hint="Correct `lookback=`.")
        if (lookback.total_seconds() if isinstance(lookback, timedelta) else lookback) < 0:
            raise ConfigError("a lookback must not be negative", hint="Correct `lookback=`.")
