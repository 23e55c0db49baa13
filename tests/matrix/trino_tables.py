"""Tables that are asked through Trino, and written through it by its own driver."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from sqlalchemy.engine import make_url
from trino.dbapi import Connection

from matrix.histories import ADDED, HELD, HIDDEN, TYPES
from matrix.model import KEY, UID, Event

KINDS = {
    "bigint": "bigint",
    "uuid": "uuid",
    "text": "varchar",
    "int": "integer",
    "decimal(10,2)": "decimal(10,2)",
    "date": "date",
    "timestamp": "timestamp(6)",
}


@dataclass(kw_only=True)
class TrinoTable:
    """A table of Iceberg in Trino's own catalog; a phase is one DELETE and one INSERT, as MERGE would leave it.

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
        schema = self.url.rpartition("/")[2]
        if self.query:
            return {"connection": "shop", "query": f"select * from {schema}.t"}
        return {"connection": "shop", "table": f"{schema}.t", "exclude": [HIDDEN]}

    def make(self) -> None:
        columns = [
            f"{name} {KINDS[kind]}{' NOT NULL' if name in (KEY, 'code') else ''}" for name, kind in TYPES.items()
        ]
        columns += [] if self.query else [f"{HIDDEN} map(varchar, integer)"]
        self._run(f"CREATE SCHEMA {self.url.rpartition('/')[2]}", f"CREATE TABLE t ({', '.join(columns)})")

    def change(self, events: Sequence[Event]) -> None:
        last = {event.key: event.row for event in events}
        self.phases += 1
        hidden = [] if self.query else [f"map(array['phase'], array[{self.phases}])"]
        named = ", ".join([*self.columns, *([] if self.query else [HIDDEN])])
        rows = [
            ", ".join([*(self._literal(name, row[name]) for name in self.columns), *hidden])
            for row in last.values()
            if row
        ]
        if last:
            self._run(f"DELETE FROM t WHERE {KEY} IN ({', '.join(map(str, last))})")
        if rows:
            self._run(f"INSERT INTO t ({named}) VALUES {', '.join(f'({row})' for row in rows)}")

    def widen(self) -> None:
        self.columns = tuple(HELD)
        self._run(f"ALTER TABLE t ADD COLUMN {ADDED} {KINDS[HELD[ADDED]]}")

    @staticmethod
    def _literal(name: str, value: Any) -> str:
        match value:
            case None:
                return "NULL"
            case datetime():
                return f"TIMESTAMP '{value.isoformat(' ', 'microseconds')}'"
            case date():
                return f"DATE '{value.isoformat()}'"
            case Decimal():
                return f"DECIMAL '{value}'"
            case int():
                return str(value)
            case _:
                text = "'" + value.replace("'", "''") + "'"
                return f"UUID {text}" if name == UID else text

    def _run(self, *statements: str) -> None:
        url = make_url(self.url)
        catalog, _, schema = (url.database or "").partition("/")
        found = Connection(host=url.host, port=url.port, user=url.username, catalog=catalog, schema=schema)
        with contextlib.closing(found) as connection:
            for statement in statements:
                cursor = connection.cursor()
                cursor.execute(statement)
                cursor.fetchall()
                cursor.close()
