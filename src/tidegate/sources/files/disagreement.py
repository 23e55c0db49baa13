"""Says in what Spark and the second reader of some files differ: in which file, which columns, and how.

Asked only after a load's verification has failed. Never names a value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tidegate.core.display import counted
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.schema import Column
from tidegate.dialects.spark import Spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidegate.sources.shared.reference import FileRows

NAMED = 5
"""Columns that are named at most."""


class Reader(Protocol):
    """What is asked of either reader."""

    def fingerprint(self, paths: Sequence[str], columns: Sequence[Column]) -> Fingerprint:
        """Of the values of these columns in all rows of the files; of no columns it counts the rows."""

    def values(self, path: str, column: Column) -> int:
        """How many rows of the file have one."""


def disagreement(paths: Sequence[str], columns: Sequence[Column], one: Reader, other: Reader) -> str | None:
    """In what the readers differ in the first file in which they do, in a sentence; None where they read the same.

    Args:
        columns: those that a fingerprint covers; without any, only numbers of rows are compared.
        one, other: Spark, and the reader that verifies.
    """

    def differ(some: Sequence[str], which: Sequence[Column] = columns) -> bool:
        return one.fingerprint(some, which) != other.fingerprint(some, which)

    if not paths or not differ(paths):
        return None
    while len(paths) > 1:
        half = paths[: len(paths) // 2]
        paths = half if differ(half) else paths[len(half) :]
    path = paths[0]
    rows, more = (reader.fingerprint(paths, columns).rows for reader in (one, other))
    if rows != more:
        return f"Spark reads {counted(rows, 'row')} from {path}, and the reader that verifies reads {more}"
    wrong = [column for column in columns if differ(paths, (column,))]
    differences = [_of_column(each, one.values(path, each), other.values(path, each)) for each in wrong[:NAMED]]
    differences += [f"and {counted(len(wrong) - NAMED, 'more column')}"] if len(wrong) > NAMED else []
    listed = ", ".join(differences) or "the values of its columns stand together in other rows"
    return f"Spark and the reader that verifies do not read the same from {path}: {listed}"


def _of_column(column: Column, spark: int, other: int) -> str:
    how = "as many values, but others" if spark == other else f"{counted(spark, 'value')} for Spark instead of {other}"
    return f"column {column.name!r} ({column.type.kind}) has {how}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BySpark:
    """As the load reads.

    Args:
        rows: of some files.
    """

    rows: Callable[[Sequence[str]], DataFrame]

    def fingerprint(self, paths: Sequence[str], columns: Sequence[Column]) -> Fingerprint:
        from tidegate.spark import dataframe_ops  # noqa: PLC0415 - rows are looked at, Spark is running

        rows = self.rows(paths)
        return dataframe_ops.fingerprint(rows, Spark().steps(columns)) if columns else Fingerprint(rows=rows.count())

    def values(self, path: str, column: Column) -> int:
        return self.rows([path]).where(f"{Spark().quote(column.name)} IS NOT NULL").count()


@dataclass(frozen=True, slots=True, kw_only=True)
class ByReference:
    """As verification reads."""

    rows: FileRows

    def fingerprint(self, paths: Sequence[str], columns: Sequence[Column]) -> Fingerprint:
        from tidegate.core import canonical_text  # noqa: PLC0415 - it needs PyArrow

        tables = self.rows.tables(paths, [column.name for column in columns])
        if not columns:
            return Fingerprint(rows=sum(table.num_rows for table in tables))
        return sum((canonical_text.of_table(columns, table) for table in tables), Fingerprint())

    def values(self, path: str, column: Column) -> int:
        tables = self.rows.tables([path], [column.name])
        return sum(table.num_rows - table[column.name].null_count for table in tables)
