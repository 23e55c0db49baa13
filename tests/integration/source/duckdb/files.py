"""Files of DuckDB as sources."""

from __future__ import annotations

from pathlib import Path

import duckdb

from tidegate.core.ids import Connection
from tidegate.sources.database import Database


def run(file: Path, *statements: str, rows: list | None = None) -> None:
    with duckdb.connect(str(file)) as connection:
        connection.execute("SET TimeZone = 'America/New_York'")
        for statement in statements:
            if rows is not None and "?" in statement:
                connection.executemany(statement, rows)
            else:
                connection.execute(statement)


def source(file: Path, table: str = "hard", **options) -> Database:
    if "query" not in options:
        options["table"] = table
    return Database(connection=Connection(name="file", url=f"duckdb:///{file}"), **options)
