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

from matrix.histories import HIDDEN
from matrix.model import KEY, UID
from matrix.statement_tables import StatementTable


@dataclass(kw_only=True)
class TrinoTable(StatementTable):
    """A table of Iceberg in Trino's own catalog, changed as MERGE would leave it."""

    needed = (KEY, "code")
    kinds = {
        "bigint": "bigint",
        "uuid": "uuid",
        "text": "varchar",
        "int": "integer",
        "decimal(10,2)": "decimal(10,2)",
        "date": "date",
        "timestamp": "timestamp(6)",
    }

    def source(self, name: str) -> dict[str, Any]:
        if self.query:
            return {"connection": "shop", "query": f"select * from {self._schema}.t"}
        return {"connection": "shop", "table": f"{self._schema}.t", "exclude": [HIDDEN]}

    def make(self) -> None:
        self._run(f"CREATE SCHEMA {self._schema}", f"CREATE TABLE t ({self.declared('map(varchar, integer)')})")

    @property
    def table(self) -> str:
        return "t"

    @property
    def hidden(self) -> str:
        return f"map(array['phase'], array[{self.phases}])"

    def several(self, rows: Sequence[str]) -> str:
        return f"VALUES {', '.join(f'({row})' for row in rows)}"

    def literal(self, name: str, value: Any) -> str:
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

    @property
    def _schema(self) -> str:
        return self.url.rpartition("/")[2]

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
