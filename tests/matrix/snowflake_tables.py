"""Tables of the server that speaks Snowflake's protocol, written by the real driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from matrix.histories import HIDDEN, TYPES
from matrix.statement_tables import StatementTable
from support.snowflake import SnowflakeServer

STATED = {name: kind for name, kind in TYPES.items() if kind in ("bigint", "int")}
"""What a NUMBER without digits behind the point is read as."""


@dataclass(kw_only=True)
class SnowflakeTable(StatementTable):
    """A table whose names are in lower case, which have to be quoted."""

    quote = '"'
    kinds = {
        "bigint": "number(38,0)",
        "uuid": "varchar",
        "text": "varchar",
        "int": "number(10,0)",
        "decimal(10,2)": "number(10,2)",
        "date": "date",
        "timestamp": "timestamp_ntz(6)",
    }

    def source(self, name: str) -> dict[str, Any]:
        read = {"query": f"SELECT * FROM {self.table}"} if self.query else {"table": f"{self._schema}.T"}
        return {"connection": "shop", **read, "columns": STATED, **({} if self.query else {"exclude": [HIDDEN]})}

    def make(self) -> None:
        self._run(f"CREATE TABLE {self.table} ({self.declared('number(10,0)')})")

    @property
    def table(self) -> str:
        return f"DB.{self._schema}.T"

    @property
    def hidden(self) -> str:
        return str(self.phases)

    def several(self, rows: Sequence[str]) -> str:
        return " UNION ALL ".join(f"SELECT {row}" for row in rows)

    def literal(self, name: str, value: Any) -> str:
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

    @property
    def _schema(self) -> str:
        return self.url.partition("?")[0].rpartition("/")[2]

    def _run(self, *statements: str) -> None:
        SnowflakeServer(port=int(self.url.rpartition("@")[2].partition("/")[0].rpartition(":")[2])).run(*statements)
