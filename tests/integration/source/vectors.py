"""The tg1 vectors, as rows of each database."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tidegate.core.fingerprint import Fingerprint
from tidegate.core.ids import Target
from tidegate.core.schema import TEXT, TIMESTAMP, Schema, Type, decimal
from tidegate.core.slices import Everything
from tidegate.engine import rescued_columns

VECTORS = json.loads((Path(__file__).parents[2] / "golden" / "tg1-vectors.json").read_text())
FINGERPRINT = Fingerprint.of_sums([VECTORS["fingerprint"][name] for name in ("count", "s0", "s1", "s2", "s3")])
TEXTS = [row["text"] for row in VECTORS["rows"]]

POSTGRESQL = """
CREATE TABLE vectors (
  c0 bigint, c1 numeric(38,4), c2 boolean, c3 date, c4 timestamp, c5 timestamptz, c6 text, c7 uuid, c8 bytea
)
"""
SQLITE = """
CREATE TABLE vectors (
  c0 bigint, c1 text, c2 boolean, c3 date, c4 timestamp, c5 timestamp, c6 text, c7 uuid, c8 blob
)
"""
SQLITE_COLUMNS = {"c1": "decimal(38,4)"}


def postgresql_rows() -> list[list[object]]:
    """Values for psycopg; bytes as bytes, all others as the text that PostgreSQL parses."""
    rows = []
    for row in VECTORS["rows"]:
        *texts, binary = row["values"]
        rows.append([*texts, None if binary is None else bytes.fromhex(binary)])
    return rows


def sqlite_rows() -> list[list[object]]:
    """Values for sqlite3; timestamps with a zone already in UTC, since SQLite has none."""
    rows = []
    for row in VECTORS["rows"]:
        c0, c1, c2, c3, c4, _, c6, c7, c8 = row["values"]
        utc = row["text"].split("|")[5]
        rows.append(
            [
                int(c0),
                c1,
                None if c2 is None else int(c2 == "True"),
                c3,
                c4,
                None if utc == "~N" else utc,
                c6,
                c7,
                None if c8 is None else bytes.fromhex(c8),
            ]
        )
    return rows


TO_TEXT = {f"c{number}": TEXT for number in range(9)}
TO_MORE = {"c0": decimal(21, 2), "c3": TIMESTAMP}
CONTRACT = {"add_column": "evolve", "type_change": "cast"}


def cast(source: Any, types: Mapping[str, Type]) -> Any:
    """The source as a table sees it that keeps columns in other types."""
    with source.probe() as probe:
        columns = tuple(replace(column, type=types.get(column.name, column.type)) for column in probe.schema())
    lake: Any = SimpleNamespace(state=lambda *_: SimpleNamespace(schema=Schema(columns=columns)))
    return rescued_columns.rescuing(source, CONTRACT, lake, Target(lake="lake", namespace=("s",), table="t"), ())


def more(text: str) -> str:
    """The text of a row whose numbers have two digits more, and whose days are midnights."""
    fields = text.split("|")
    for place, suffix in ((0, ".00"), (3, " 00:00:00.000000")):
        fields[place] += suffix if fields[place] != "~N" else ""
    return "|".join(fields)


CASTS = [(TO_TEXT, TEXTS), (TO_MORE, [more(text) for text in TEXTS])]
"""Types of a table, and the texts of its rows."""


def check_casts(source: Any) -> None:
    """The database says of cast values what they are."""
    for types, texts in CASTS:
        with cast(source, types).probe() as probe:
            held = {column.name: column.type.stored for column in probe.schema() if column.name in types}
            assert held == types
            found = probe.fingerprint(Everything())
        assert found == Fingerprint.of_texts(texts)
