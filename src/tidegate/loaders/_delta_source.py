"""A Delta table that is read: its versions, its change data feed, and whether it is still the same table.

Versions alone prove nothing: a table that was dropped and made again counts from 0, too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.core.batch import Latest
from tidegate.core.display import counted
from tidegate.errors import ConfigError, DuplicateKeys, HistoryGone
from tidegate.formats.delta.change_feed import DELETES
from tidegate.loaders._batches import need_keys
from tidegate.loaders._places import Place, need, refuse_relative
from tidegate.loaders._records import Record
from tidegate.spark.dataframe_ops import DELETED, ORDER, RANK, changelog, latest, ranked
from tidegate.spark.failures import everything
from tidegate.spark.sql import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NO_FEED = re.compile(r"DELTA_MISSING_CHANGE_DATA|DELTA_CHANGE_TABLE_FEED_DISABLED|change data was not recorded")
_NO_HISTORY = re.compile(
    r"DELTA_(?:VERSION_NOT_FOUND|VERSION_INVALID|LOG_FILE_NOT_FOUND|FILE_NOT_FOUND)|no longer exist"
)

_REPLACES = re.compile(r"REPLACE TABLE|RESTORE|CLONE")
_COMMITTED = "unix_millis(`timestamp`) AS committed"
_ONE_MOMENT = 1000
"""Milliseconds: Delta tells times of commits that a store dates alike some milliseconds apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A Delta table that rows are read from."""

    spark: SparkSession
    place: Place

    @classmethod
    def of(cls, spark: SparkSession, where: str) -> Source:
        """The Delta table at a path or of a name.

        Raises:
            ConfigError: it is none, or its path is relative.
            SourceError: there is nothing.
        """
        place = need(spark, where)
        if place.format != "delta":
            raise ConfigError(
                f"{where} is {place.format}, not Delta", hint="Use TimestampBasedLoader, or a Delta table."
            )
        return cls(spark=spark, place=refuse_relative(place))

    def newest(self) -> tuple[int, int]:
        """The newest version, and when it was committed, in milliseconds."""
        history = self.spark.sql(f"DESCRIBE HISTORY {self.place.sql} LIMIT 1")
        version, at = history.selectExpr("version", _COMMITTED).collect()[0]
        return int(version), int(at)

    def table(self) -> str:
        """The id that Delta gave the table when it was made."""
        return str(self.spark.sql(f"DESCRIBE DETAIL {self.place.sql}").collect()[0]["id"])

    def replaced(self, last: Record, end: int) -> bool:
        """Whether it is another table than the one that was read, and not by a statement after that, up to `end`.

        `CREATE OR REPLACE` gives the table a new id, too, but its versions go on, and its feed tells what changed. A
        table that was dropped and made again has the version, too, but of a later time. So has an older copy that was
        put back and written to, whose id is the same.
        """
        same = last.table is None or last.table == self.table()
        limit = f" LIMIT {end - last.end + 1}" if same else ""
        history = self.spark.sql(f"DESCRIBE HISTORY {self.place.sql}{limit}").where(f"version >= {last.end}")
        commits = history.selectExpr("version", "operation", _COMMITTED).collect()
        at = next((row[2] for row in commits if row[0] == last.end), None)
        if last.committed is not None and (abs(at - last.committed) >= _ONE_MOMENT if at is not None else not same):
            return True
        return not same and not any(_REPLACES.search(row[1]) for row in commits if row[0] > last.end)

    def at(self, version: int) -> DataFrame:
        """The rows of a version."""
        return self.spark.sql(f"SELECT * FROM {self.place.sql} VERSION AS OF {version}")

    def net(self, start: int, end: int, key: tuple[str, ...]) -> DataFrame:
        """The net change of every key in the versions, both inclusive, from the change data feed.

        Rows: one a key, as the feed leaves it, and `DELETED`. A row whose key was updated is deleted under its old key.

        Raises:
            HistoryGone: the feed was not on, or its files are gone.
            DuplicateKeys: more than one row of a key came, equal or not, and did not go.
        """
        reader = self.spark.read.option("readChangeFeed", "true")
        reader = reader.option("startingVersion", str(start)).option("endingVersion", str(end))
        where = self.place.where
        try:
            feed = reader.table(self.place.sql) if self.place.table else reader.format("delta").load(where)
            rows = changelog(
                feed, deleted=DELETES, commit="_commit_version", drop=("_commit_version", "_commit_timestamp")
            )
            rule = Latest(key=key, order=(ORDER,))
            need_keys(rows, key)
            keys = [quote(name) for name in key]
            refuse_several(rows.selectExpr(*keys, f"CASE WHEN {DELETED} THEN -1 ELSE 1 END AS n"), key)
            last = ranked(rows, rule, by="rank").where(f"{RANK} = 1 AND NOT {DELETED}")
            refuse_several(last.selectExpr(*keys, "1 AS n"), key)
            return latest(rows, rule).drop("_change_type", ORDER)
        except Exception as error:
            text = everything(error)
            if _NO_FEED.search(text) or _NO_HISTORY.search(text):
                raise HistoryGone(
                    f"{where} has no change data for its versions {start} to {end}",
                    hint="Set `delta.enableChangeDataFeed = true` on the source, and load it again into an empty "
                    "target with another metadata table.",
                ) from error
            raise


def refuse_several(numbers: DataFrame, key: Sequence[str]) -> None:
    """Refuses rows of which a source has several of one key: a target has one of each.

    Args:
        numbers: the columns of the key, and `n`, how many rows of it came (below 0: went).

    Raises:
        DuplicateKeys: also where these rows are equal.
    """
    several = numbers.groupBy(*map(quote, key)).sum("n").where("`sum(n)` > 1").count()
    if several:
        raise DuplicateKeys(
            f"the source has several rows for each of {counted(several, 'key')} ({', '.join(key)}); nothing was loaded",
            hint="Correct them at the source, or use a `primary_key=` that is unique.",
        )
