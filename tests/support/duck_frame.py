"""DataFrames whose Spark SQL DuckDB answers: statements over rows are tested on values, without a JVM.

Only what the operations under test call. sqlglot translates Spark's SQL, with the order of NULL that Spark has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import duckdb
import sqlglot

NUMBERS = count()
HOW = {"inner": "JOIN", "left": "LEFT JOIN"}


def connect() -> duckdb.DuckDBPyConnection:
    """An empty database that takes functions as Spark writes them."""
    return duckdb.connect(config={"lambda_syntax": "ENABLE_SINGLE_ARROW"})


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class DuckFrame:
    """A table of DuckDB with the methods of a DataFrame; each makes another table at once."""

    connection: duckdb.DuckDBPyConnection
    name: str = field(default_factory=lambda: f"frame{next(NUMBERS)}")

    @classmethod
    def of(cls, connection: duckdb.DuckDBPyConnection, columns: Mapping[str, str], *rows: Sequence[Any]) -> DuckFrame:
        """The rows.

        Args:
            columns: their names to types of DuckDB.
        """
        made = cls(connection)
        connection.execute(
            f"CREATE TEMP TABLE {made.name} ({', '.join(f'{quoted(n)} {t}' for n, t in columns.items())})"
        )
        for row in rows:
            connection.execute(f"INSERT INTO {made.name} VALUES ({', '.join('?' * len(row))})", list(row))
        return made

    @property
    def columns(self) -> list[str]:
        return [name for name, *_ in self.connection.execute(f"DESCRIBE {self.name}").fetchall()]

    def collect(self) -> list[tuple[Any, ...]]:
        return self.connection.execute(f"SELECT * FROM {self.name}").fetchall()

    def count(self) -> int:
        return len(self.collect())

    def isEmpty(self) -> bool:  # noqa: N802 - as a DataFrame
        return not self.collect()

    def selectExpr(self, *expressions: str) -> DuckFrame:  # noqa: N802 - as a DataFrame
        return self._spark(f"SELECT {', '.join(expressions)} FROM {self.name}")

    def select(self, *names: str) -> DuckFrame:
        return self.selectExpr(*names)

    def where(self, condition: str) -> DuckFrame:
        return self._spark(f"SELECT * FROM {self.name} WHERE {condition}")

    def drop(self, *names: str) -> DuckFrame:
        kept = [quoted(name) for name in self.columns if name not in names]
        return self._made(f"SELECT {', '.join(kept)} FROM {self.name}")

    def distinct(self) -> DuckFrame:
        return self._made(f"SELECT DISTINCT * FROM {self.name}")

    def unionAll(self, other: DuckFrame) -> DuckFrame:  # noqa: N802 - as a DataFrame
        return self._made(f"SELECT * FROM {self.name} UNION ALL SELECT * FROM {other.name}")

    def unionByName(self, other: DuckFrame) -> DuckFrame:  # noqa: N802 - as a DataFrame
        return self._made(f"SELECT * FROM {self.name} UNION ALL BY NAME SELECT * FROM {other.name}")

    def join(self, other: DuckFrame, *, on: Sequence[str], how: str) -> DuckFrame:
        using = ", ".join(map(quoted, on))
        return self._made(f"SELECT * FROM {self.name} {HOW[how]} {other.name} USING ({using})")

    def groupBy(self, *keys: str) -> Grouped:  # noqa: N802 - as a DataFrame
        return Grouped(self, ", ".join(keys))

    def _spark(self, statement: str) -> DuckFrame:
        (translated,) = sqlglot.transpile(statement, read="spark", write="duckdb")
        return self._made(translated)

    def _made(self, statement: str) -> DuckFrame:
        made = DuckFrame(self.connection)
        self.connection.execute(f"CREATE TEMP TABLE {made.name} AS {statement}")
        return made


@dataclass(frozen=True)
class Grouped:
    """Rows of a frame by key."""

    rows: DuckFrame
    keys: str

    def count(self) -> DuckFrame:
        return self.rows._spark(f"SELECT {self.keys}, count(*) AS count FROM {self.rows.name} GROUP BY {self.keys}")
