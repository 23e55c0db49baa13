"""Dates replayed rows of a quarantine: when they took effect, and when their versions ended.

Never ends a version that was loaded after the end of a quarantined row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.core.schema import Kind, Type
from tidegate.spark import dataframe_ops
from tidegate.spark.dataframe_ops import DELETED, MOMENT
from tidegate.spark.sql import names, quote
from tidegate.writers.scd2 import validity as dates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WENT, _HERE, _BEGAN = "__tidegate_went", "__tidegate_here", "__tidegate_began"
_BEFORE, _NEXT = "__tidegate_ended_before", "__tidegate_next"


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
