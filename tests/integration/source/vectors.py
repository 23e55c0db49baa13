"""The tg1 vectors, as rows of each database."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from integration.source.places import Place
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.ids import Target
from tidegate.core.ports.format import TableState
from tidegate.core.schema import TEXT, TIMESTAMP, Schema, Type, decimal
from tidegate.engine import rescued_columns
from tidegate.sources.database import Database

VECTORS = json.loads((Path(__file__).parents[2] / "golden" / "tg1-vectors.json").read_text())
FINGERPRINT = Fingerprint.of_sums([VECTORS["fingerprint"][name] for name in ("count", "s0", "s1", "s2", "s3")])
TEXTS = [row["text"] for row in VECTORS["rows"]]

# The columns c0 to c8 of each database: their types, and how it writes a value; `{}` is the value as the file has it,
# a time with a zone in UTC, and a text quoted.
TYPES = {
    "sqlite": "bigint, text, boolean, date, timestamp, timestamp, text, uuid, blob",
    "duckdb": "bigint, decimal(38,4), boolean, date, timestamp, timestamptz, varchar, uuid, blob",
    "mariadb": "bigint, decimal(38,4), tinyint(1), date, datetime(6), datetime(6), text, uuid, blob",
    "postgresql": "bigint, numeric(38,4), boolean, date, timestamp, timestamptz, text, uuid, bytea",
    "trino": "bigint, decimal(38,4), boolean, date, timestamp(6), timestamp(6) with time zone, varchar, uuid, "
    "varbinary",
    "snowflake": "bigint, number(38,4), boolean, date, timestamp_ntz, timestamp_tz, varchar, varchar, binary",
}
LITERALS = {
    "sqlite": ("{}", "'{}'", "{}", "'{}'", "'{}'", "'{}'", "{}", "'{}'", "x'{}'"),
    "duckdb": ("{}", "'{}'", "{}", "'{}'", "'{}'", "'{}+00'", "{}", "'{}'", "from_hex('{}')"),
    "mariadb": ("{}", "{}", "{}", "'{}'", "'{}'", "'{}'", "{}", "'{}'", "x'{}'"),
    "postgresql": ("{}", "{}", "{}", "'{}'", "'{}'", "'{}+00'", "{}", "'{}'", r"'\x{}'"),
    "trino": (
        *("bigint '{}'", "decimal '{}'", "{}", "date '{}'", "timestamp '{}'", "timestamp '{} UTC'", "{}"),
        *("uuid '{}'", "x'{}'"),
    ),
    "snowflake": (
        *("{}", "{}", "{}", "'{}'", "'{}'::timestamp_ntz", "'{} +00:00'::timestamp_tz", "{}", "'{}'"),
        "to_binary('{}', 'HEX')",
    ),
}
READ_AS = {"sqlite": {"c1": "decimal(38,4)"}, "mariadb": {"c2": "boolean"}, "snowflake": {"C0": "bigint"}}


def source(place: Place) -> Database:
    """The vectors in a table of that database."""
    kinds = TYPES[place.kind].replace("(38,4)", "(38;4)").split(", ")
    columns = ", ".join(f"c{number} {kind}" for number, kind in enumerate(kinds)).replace(";", ",")
    rows = [", ".join(_literals(place, row)) for row in VECTORS["rows"]]
    return place.of(columns, *rows, columns=READ_AS.get(place.kind, {}))


def _literals(place: Place, row: Mapping[str, Any]) -> list[str]:
    values = list(row["values"])
    for number in (4, 5):
        values[number] = row["text"].split("|")[number] if values[number] else None
    if values[6] is not None:
        values[6] = place.dialect.string(values[6])
    made = (form.format(value) for form, value in zip(LITERALS[place.kind], values, strict=True))
    return ["NULL" if value is None else literal for literal, value in zip(made, values, strict=True)]


def python_rows() -> list[list[object]]:
    """Values for a driver; bytes as bytes, all others as texts that a database parses."""
    rows = []
    for row in VECTORS["rows"]:
        *texts, binary = row["values"]
        rows.append([*texts, None if binary is None else bytes.fromhex(binary)])
    return rows


TO_TEXT = {f"c{number}": TEXT for number in range(9)}
TO_MORE = {"c0": decimal(21, 2), "c3": TIMESTAMP}
CONTRACT = {"add_column": "evolve", "type_change": "cast"}


def cast(source: Any, types: Mapping[str, Type]) -> Any:
    """The source as a table sees it that keeps columns in other types."""
    with source.probe() as probe:
        columns = tuple(replace(column, type=types.get(column.name, column.type)) for column in probe.schema())
    lake: Any = SimpleNamespace(state=lambda *_: TableState(exists=True, schema=Schema(columns=columns)))
    target = Target(lake="lake", namespace=("s",), table="t")
    return rescued_columns.rescuing(source, CONTRACT, lake, target, (), uid="t")


def more(text: str) -> str:
    """The text of a row whose numbers have two digits more, and whose days are midnights."""
    fields = text.split("|")
    for place, suffix in ((0, ".00"), (3, " 00:00:00.000000")):
        fields[place] += suffix if fields[place] != "~N" else ""
    return "|".join(fields)


CASTS = [(TO_TEXT, TEXTS), (TO_MORE, [more(text) for text in TEXTS])]
"""Types of a table, and the texts of its rows."""
