"""Finds out what a path or name is in Spark: files of one format, a Delta path, or a table.

Queries only Spark, because only Spark may have access to the path.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.core.ids import join_name, split_name
from tidegate.errors import ConfigError, SourceError
from tidegate.sources.shared.files.options import ABSENT
from tidegate.spark.caching import uncached
from tidegate.spark.failures import everything
from tidegate.spark.sql import names, quote, type_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES = ("parquet", "csv", "json", "orc")
FORMATS = (*FILES, "delta", "iceberg")
_SUFFIX = re.compile(r"\.(parquet|csv|json|orc)(?:\.\w+)?$", re.IGNORECASE)
_MISSING = re.compile(r"PATH_NOT_FOUND|Path does not exist|FileNotFoundException")
# Spark would cut a time to milliseconds, and its offset to minutes (before zones there were seconds), swallow spaces,
# and end a row where a text has a line break. The option `timeZone` would change what names of folders mean, too.
TEXTS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
OPTIONS: dict[str, dict[str, str]] = {
    "csv": {
        **TEXTS,
        "header": "true",
        "multiLine": "true",
        "escape": '"',
        "ignoreLeadingWhiteSpace": "false",
        "ignoreTrailingWhiteSpace": "false",
    },
    "json": TEXTS,
}
# Spark would else take an empty text for NULL.
EMPTY_TEXTS = {"nullValue": ABSENT, "emptyValue": ""}
# Quotes as RFC 4180 has them, and an error instead of NULL for a row that does not fit, and instead of values under
# other names for a file whose header has another order.
_READ = {
    "csv": {
        "header": "true",
        "inferSchema": "true",
        "multiLine": "true",
        "escape": '"',
        "unescapedQuoteHandling": "RAISE_ERROR",
        **EMPTY_TEXTS,
        "enforceSchema": "false",
        "mode": "FAILFAST",
    },
    "json": {"mode": "FAILFAST"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where rows are stored.

    Args:
        where: the path or the table's name, as given.
        format: one of `FORMATS`; `view` for a relation that only has a name.
        table: it is a name of a catalog.
    """

    where: str
    format: str
    table: bool = False

    @property
    def sql(self) -> str:
        """The relation in a statement; files alone have none."""
        return table_name(self.where) if self.table else f"delta.{quote(self.where)}"

    def read(self, spark: SparkSession, options: Mapping[str, str], schema: str | None) -> DataFrame:
        """The rows; CSV as of RFC 4180 with a header and guessed types, unless options or a schema say otherwise."""
        if self.table:
            return spark.table(table_name(self.where))
        reader = uncached(spark).format(self.format)
        if schema is not None:
            reader = reader.schema(schema)
        return reader.options(**{**_READ.get(self.format, {}), **options}).load(self.where)


def refuse_relative(place: Place) -> Place:
    """The place of a Delta table, whose path begins at a root: only then Spark's SQL and its readers mean one folder.

    Raises:
        ConfigError: of a relative path.
    """
    if place.format == "delta" and not place.table and not re.match(r"/|[A-Za-z][A-Za-z0-9+.-]*:", place.where):
        raise ConfigError(
            f"{place.where} is a relative path, which Spark's SQL and its readers resolve against different folders",
            hint="Pass the whole path of the Delta table, such as /data/orders or s3a://bucket/orders, or its name.",
        )
    return place


def find(spark: SparkSession, where: str, wanted: str | None = None) -> Place | None:
    """What is there; None if nothing is.

    Args:
        wanted: the format; found out when not given.

    Raises:
        ConfigError: an unknown format, or a folder whose format cannot be told.
    """
    if wanted is not None and wanted not in FORMATS:
        raise ConfigError(f"format {wanted!r} is not known", hint=f"Use one of {', '.join(FORMATS)}, or leave it out.")
    if is_name(where) and _known(spark, where):
        return Place(where=where, format=_provider(spark, where), table=True)
    if wanted == "iceberg":
        return None
    if files(spark, posixpath.join(where, "_delta_log")):
        return Place(where=where, format="delta")
    found = files(spark, where)
    if found is None:
        return None
    if wanted is not None:
        return Place(where=where, format=wanted)
    formats = {match[1].lower() for file in found if (match := _SUFFIX.search(file))}
    if len(formats) > 1 or (found and not formats):
        raise ConfigError(
            f"the format of the files under {where} cannot be determined", hint="Pass `source_format=` to the loader."
        )
    return Place(where=where, format=formats.pop()) if formats else None


def need(spark: SparkSession, where: str, wanted: str | None = None) -> Place:
    """What is there. Raises SourceError if nothing is."""
    place = find(spark, where, wanted)
    if place is None:
        raise SourceError(
            f"nothing can be read at {where}", hint="Correct the path, or the session's access to it.", source=where
        )
    return place


def planned(where: str, wanted: str | None) -> Place:
    """What a new target at `where` will be: a name makes a table, a suffix says its format, else Parquet."""
    if wanted is None and (match := _SUFFIX.search(where)):
        return Place(where=where, format=match[1].lower())
    if is_name(where) and (wanted == "iceberg" or (wanted in (None, "delta") and len(split_name(where)) > 1)):
        return Place(where=where, format=wanted or "", table=True)
    return Place(where=where, format=wanted or "parquet")


def is_name(where: str) -> bool:
    """Whether it may be a table's name.

    Example:
        >>> [is_name(text) for text in ("lake.shop.orders", "s3a://bucket/orders", "/data/orders", "")]
        [True, False, False, False]
    """
    if "/" in where or "\\" in where or ":" in where:
        return False
    try:
        return bool(split_name(where))
    except ValueError:
        return False


def table_name(where: str) -> str:
    """A table's name, quoted part by part."""
    return ".".join(quote(part) for part in split_name(where))


def short_name(where: str) -> str:
    """What people call a target when they give it no name: the last part of its path or name.

    Example:
        >>> short_name("s3a://bucket/lake/orders/"), short_name("lake.shop.orders")
        ('orders', 'orders')
    """
    return split_name(where)[-1] if is_name(where) else posixpath.basename(where.rstrip("/")) or where


def files(spark: SparkSession, path: str) -> list[str] | None:
    """The files below a path as URIs, hidden ones left out; None when the path is not there. Runs no job."""
    from pyspark.errors import PySparkException  # noqa: PLC0415 - importing pyspark takes a second

    listing = uncached(spark).format("binaryFile").option("recursiveFileLookup", "true")
    try:
        return list(listing.load(path).inputFiles())
    except PySparkException as error:
        if _MISSING.search(everything(error)):
            return None
        raise


def empty(spark: SparkSession, folder: str) -> None:
    """Removes the files of a folder: Spark deletes what it overwrites, and writes no file for no partition."""
    nothing = spark.range(0).selectExpr("id", "id AS nothing")
    nothing.write.partitionBy("nothing").mode("overwrite").parquet(folder)


def ddl_of(rows: DataFrame) -> str:
    """The columns as a schema that Spark reads back."""
    return ", ".join(f"{quote(name)} {type_name(kind)}" for name, kind in rows.dtypes)


def create(table: str, kind: str, rows: DataFrame, partition_by: Sequence[str]) -> str:
    """The statement that makes an empty table for the rows, unless one is there."""
    by = f" PARTITIONED BY ({names(partition_by)})" if partition_by else ""
    return f"CREATE TABLE IF NOT EXISTS {table} ({ddl_of(rows)}) USING {kind}{by}"


def _known(spark: SparkSession, where: str) -> bool:
    from pyspark.errors import PySparkException  # noqa: PLC0415 - as above

    try:
        return spark.catalog.tableExists(join_name(split_name(where)))
    except PySparkException:
        return False  # no such catalog or schema: not a name, then


def _provider(spark: SparkSession, where: str) -> str:
    rows: Any = spark.sql(f"DESCRIBE TABLE EXTENDED {table_name(where)}").collect()
    return next((str(row[1]).lower() for row in rows if row[0] == "Provider"), "view")
