"""Tables of the server that speaks Snowflake's protocol, written by the real driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from matrix.histories import ADDED, HELD, HIDDEN, TYPES
from matrix.model import KEY, Event
from support.snowflake import SnowflakeServer

KINDS = {
    "bigint": "number(38,0)",
    "uuid": "varchar",
    "text": "varchar",
    "int": "number(10,0)",
    "decimal(10,2)": "number(10,2)",
    "date": "date",
    "timestamp": "timestamp_ntz(6)",
}
STATED = {name: kind for name, kind in TYPES.items() if kind in ("bigint", "int")}
"""What a NUMBER without digits behind the point is read as."""


@dataclass(kw_only=True)
class SnowflakeTable:
    """A table in a schema of its own; a phase is one DELETE and one INSERT.

    Unless it is read by a query it has a column more, which changes with every row and is not to be read.
    """

    url: str
    query: bool = False
    phases: int = 0
    columns: tuple[str, ...] = tuple(TYPES)

    def connections(self) -> dict[str, Any]:
        return {"shop": {"url": self.url}}

    def lakes(self) -> dict[str, Any]:
        return {}

    def source(self, name: str) -> dict[str, Any]:
        read = {"query": f"SELECT * FROM {self._table}"} if self.query else {"table": f"{self._schema}.T"}
        return {"connection": "shop", **read, "columns": STATED, **({} if self.query else {"exclude": [HIDDEN]})}

    def make(self) -> None:
        columns = [f'"{name}" {KINDS[kind]}{" NOT NULL" if name == KEY else ""}' for name, kind in TYPES.items()]
        columns += [] if self.query else [f'"{HIDDEN}" number(10,0)']
        self._run(f"CREATE TABLE {self._table} ({', '.join(columns)})")

    def change(self, events: Sequence[Event]) -> None:
        last = {event.key: event.row for event in events}
        self.phases += 1
        hidden = {} if self.query else {HIDDEN: str(self.phases)}
        named = ", ".join(f'"{name}"' for name in (*self.columns, *hidden))
        rows = [
            ", ".join([*(literal(row[name]) for name in self.columns), *hidden.values()])
            for row in last.values()
            if row
        ]
        if last:
            self._run(f'DELETE FROM {self._table} WHERE "{KEY}" IN ({", ".join(map(str, last))})')
        if rows:
            told = " UNION ALL ".join(f"SELECT {row}" for row in rows)
            self._run(f"INSERT INTO {self._table} ({named}) {told}")

    def widen(self) -> None:
        self.columns = tuple(HELD)
        self._run(f'ALTER TABLE {self._table} ADD COLUMN "{ADDED}" {KINDS[HELD[ADDED]]}')

    @property
    def _schema(self) -> str:
        return self.url.partition("?")[0].rpartition("/")[2]

    @property
    def _table(self) -> str:
        return f"DB.{self._schema}.T"

    def _run(self, *statements: str) -> None:
        SnowflakeServer(port=int(self.url.rpartition("@")[2].partition("/")[0].rpartition(":")[2])).run(*statements)


def literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case datetime():
            return f"'{value.isoformat(' ', 'microseconds')}'::timestamp_ntz"
        case date():
            return f"'{value.isoformat()}'::date"
        case Decimal():
            return f"{value}::number(10,2)"
        case int():
            return str(value)
        case _:
            return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
