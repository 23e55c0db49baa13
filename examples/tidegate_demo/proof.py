"""Compares source and tables without the code that loaded them.

SQLite's driver reads one side, PyIceberg the other. Never uses Spark, the dialects or the position, whose errors it
might otherwise share.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.core.fingerprint import Fingerprint, row_text

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

Texts = tuple[str | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Both sides of one table; every column takes part, floating point numbers by their shortest exact text."""

    table: str
    source: Fingerprint
    target: Fingerprint

    @property
    def equal(self) -> bool:
        """The same rows, as often, with the same values."""
        return self.source == self.target


def prove(project: Path, database: Path, tables: tuple[str, ...]) -> tuple[Proof, ...]:
    """Reads both sides of every table whole.

    Args:
        tables: names in the database; in the lake they are `air.<name>`.
    """
    catalog = _catalog(project)
    return tuple(
        Proof(
            table=name,
            source=Fingerprint.of_texts(map(row_text, _source_rows(database, name))),
            target=Fingerprint.of_texts(map(row_text, _table_rows(catalog, name))),
        )
        for name in tables
    )


def _catalog(project: Path) -> Catalog:
    from pyiceberg.catalog.sql import SqlCatalog  # noqa: PLC0415 - its import takes a second, and only this needs it

    return SqlCatalog(
        "lake",
        uri=f"sqlite:///{project / '.tidegate' / 'catalog.db'}",
        warehouse=(project / "warehouse").as_uri(),
        init_catalog_tables="false",
    )


def _source_rows(database: Path, table: str) -> Iterator[Texts]:
    with closing(sqlite3.connect(database)) as connection:
        columns = [(row[1], row[2]) for row in connection.execute(f"PRAGMA table_info({table})")]
        texts = ", ".join(name if kind == "REAL" else f"CAST({name} AS TEXT)" for name, kind in columns)
        real = [index for index, (_, kind) in enumerate(columns) if kind == "REAL"]
        for row in connection.execute(f"SELECT {texts} FROM {table}"):
            yield _with_reprs(row, real) if real else row


def _with_reprs(row: tuple[Any, ...], real: list[int]) -> Texts:
    values = list(row)
    for index in real:
        values[index] = None if values[index] is None else repr(values[index])
    return tuple(values)


def _table_rows(catalog: Catalog, table: str) -> Iterator[Texts]:
    for batch in catalog.load_table(f"air.{table}").scan().to_arrow().to_batches(max_chunksize=50_000):
        yield from zip(
            *(
                [None if value is None else repr(value) for value in column.to_pylist()]
                if column.type == "double"
                else column.cast("string").to_pylist()
                for column in batch.columns
            ),
            strict=True,
        )
