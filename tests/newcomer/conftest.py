"""A newcomer's database on a real PostgreSQL, the command line, and readers of both sides.

The readers share no code with the engine: psycopg asks the source, PyIceberg and PyArrow read the tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql
from pyiceberg.catalog.sql import SqlCatalog

from integration.cli.terminal import Said, Terminal

TABLES = Path(__file__).with_name("tables.sql")
# What a table keeps of these as text is not what a plain cast writes.
TEXTS = {"time": "to_char({c}, 'HH24:MI:SS.US')", "inet": "host({c})", "bpchar": "rtrim({c}::text)"}


@dataclass(kw_only=True)
class Newcomer:
    """A folder, a database, and somebody who types commands."""

    folder: Path
    url: str
    session: psycopg.Connection
    terminal: Terminal

    def __call__(self, *arguments: str) -> Said:
        return self.terminal(*arguments)

    def streams(self, command: str) -> dict[str, dict[str, Any]]:
        """The streams of the command's JSON document, by name."""
        said = self.terminal(command, "--json", "--quiet")
        assert said.exit_code == 0, said.everything
        return {each["stream"]: each for each in said.document["streams"]}

    def change(self, *statements: str) -> None:
        for statement in statements:
            self.session.execute(statement)

    def table(self, name: str) -> pa.Table:
        """The rows of a table in the lake, by PyIceberg."""
        uri = f"sqlite:///{self.folder}/.tidegate/catalog.db"
        catalog = SqlCatalog("lake", uri=uri, warehouse=str(self.folder / "warehouse"))
        try:
            return catalog.load_table(tuple(name.split("."))).scan().to_arrow()
        finally:
            catalog.close()

    def source(self, schema: str, table: str, columns: pa.Schema) -> list[tuple[Any, ...]]:
        """The rows of a table at the source, as the columns of the lake's table should hold them."""
        kinds = self._kinds(schema, table)
        assert set(kinds) == set(columns.names)
        fields = []
        for column in columns:
            name = sql.Identifier(column.name).as_string(self.session)
            text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
            fields.append(TEXTS.get(kinds[column.name], "{c}::text").format(c=name) if text else name)
        relation = sql.Identifier(schema, table).as_string(self.session)
        return ordered(self.session.execute(f"SELECT {', '.join(fields)} FROM {relation}").fetchall())

    def _kinds(self, schema: str, table: str) -> dict[str, str]:
        rows = self.session.execute(
            "SELECT column_name, udt_name FROM information_schema.columns WHERE table_schema = %s AND table_name = %s",
            (schema, table),
        )
        return dict(rows.fetchall())


def ordered(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The rows in one order for both sides; of a number its value counts, not its digits."""
    return sorted((tuple(map(_plain, row)) for row in rows), key=repr)


def _plain(value: Any) -> Any:
    return value.normalize() if isinstance(value, Decimal) else value


@pytest.fixture
def newcomer(pg_url: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Iterator[Newcomer]:
    """The nineteen tables, and a role that may read all but one of them."""
    with psycopg.connect(pg_url, autocommit=True) as session:
        session.execute("SET timezone = 'UTC'; SET datestyle = 'ISO, YMD'; SET intervalstyle = 'postgres'")
        session.execute(TABLES.read_text(encoding="utf-8"))
        terminal = Terminal(folder=tmp_path, capfd=capfd)
        yield Newcomer(folder=tmp_path, url=pg_url.replace("postgres@", "loader@"), session=session, terminal=terminal)
        session.execute("DROP OWNED BY loader; DROP ROLE loader")
