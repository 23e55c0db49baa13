"""Canonical texts of values that Python holds, by the vectors that another program computed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core import canonical_text, schema
from tidegate.core.fingerprint import Fingerprint, row_text
from tidegate.core.schema import Column, Type

VECTORS = json.loads((Path(__file__).parents[2] / "golden" / "tg1-vectors.json").read_text())
COLUMNS: dict[str, tuple[Type, Any]] = {
    "int": (schema.BIGINT, int),
    "decimal(38,4)": (schema.decimal(38, 4), Decimal),
    "bool": (schema.BOOLEAN, lambda text: text == "True"),
    "date": (schema.DATE, date.fromisoformat),
    "timestamp": (schema.TIMESTAMP, datetime.fromisoformat),
    "timestamptz": (schema.TIMESTAMPTZ, datetime.fromisoformat),
    "text": (schema.TEXT, str),
    "uuid": (schema.UUID, str),
    "binary": (schema.BINARY, bytes.fromhex),
}


def fingerprint(columns: Sequence[Column], rows: Iterable[Sequence[Any]]) -> Fingerprint:
    """The reference: of rows with a value for each of the columns, text by text."""
    made = [canonical_text.text_of(column.type) for column in columns]

    def fields(row: Sequence[Any]) -> Iterable[str | None]:
        return (None if value is None else text(value) for text, value in zip(made, row, strict=True))

    return Fingerprint.of_texts(row_text(fields(row)) for row in rows)


def test_vectors() -> None:
    kinds = [COLUMNS[column["type"]] for column in VECTORS["columns"]]
    columns = [Column(name=f"c{n}", type=kind) for n, (kind, _) in enumerate(kinds)]
    rows = [
        [None if text is None else made(text) for (_, made), text in zip(kinds, row["values"], strict=True)]
        for row in VECTORS["rows"]
    ]
    expected = [VECTORS["fingerprint"][name] for name in ("count", "s0", "s1", "s2", "s3")]
    assert fingerprint(columns, rows) == Fingerprint.of_sums(expected)
    assert canonical_text.of_table(columns, table(columns, rows)) == Fingerprint.of_sums(expected)


def table(columns: list[Column], rows: list[list[Any]]) -> pa.Table:
    values = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
    arrays = [pa.array(one, arrow(column.type)) for column, one in zip(columns, values, strict=True)]
    return pa.table(arrays, names=[column.name for column in columns])


def arrow(kind: Type) -> pa.DataType:
    if kind.kind is schema.Kind.DECIMAL:
        return pa.decimal128(kind.precision, kind.scale)
    return {
        schema.INT: pa.int32(),
        schema.BIGINT: pa.int64(),
        schema.BOOLEAN: pa.bool_(),
        schema.DATE: pa.date32(),
        schema.TIMESTAMP: pa.timestamp("us"),
        schema.TIMESTAMPTZ: pa.timestamp("us", tz="UTC"),
        schema.BINARY: pa.binary(),
    }.get(kind, pa.large_string())


moments = st.datetimes()
decimals = {scale: st.decimals(-(10**9), 10**9, places=scale, allow_nan=False) for scale in (0, 2, 6, 9)}
VALUES = [
    (schema.INT, st.integers(-(2**31), 2**31 - 1)),
    (schema.BIGINT, st.integers(-(2**63), 2**63 - 1)),
    *((schema.decimal(38, scale), values) for scale, values in decimals.items()),
    (schema.BOOLEAN, st.booleans()),
    (schema.DATE, st.dates()),
    (schema.TIMESTAMP, moments),
    (schema.TIMESTAMPTZ, moments.map(lambda moment: moment.replace(tzinfo=UTC))),
    (schema.TEXT, st.text(st.characters(codec="utf-8"))),
    (schema.UUID, st.uuids().map(str)),
    (schema.BINARY, st.binary()),
]


@given(st.lists(st.tuples(*(st.none() | values for _, values in VALUES)), max_size=5))
def test_arrow_writes_the_texts_that_python_writes(rows: list[tuple[Any, ...]]) -> None:
    columns = [Column(name=f"c{number}", type=kind) for number, (kind, _) in enumerate(VALUES)]
    assert canonical_text.of_table(columns, table(columns, list(map(list, rows)))) == fingerprint(columns, rows)


def test_values_of_another_type_than_the_columns_are_written_as_python_writes_them() -> None:
    column = Column(name="c", type=schema.TIMESTAMPTZ)
    seconds = pa.table({"c": pa.array([datetime(2025, 1, 1, tzinfo=UTC)], pa.timestamp("s", tz="Europe/Berlin"))})
    assert canonical_text.of_table([column], seconds) == Fingerprint.of_texts(["2025-01-01 00:00:00.000000"])
    with pytest.raises(ArithmeticError):
        canonical_text.of_table([Column(name="c", type=schema.decimal(10, 1))], pa.table({"c": [Decimal("1.05")]}))


def test_a_value_that_the_type_cannot_hold_has_no_text() -> None:
    with pytest.raises(ArithmeticError):
        canonical_text.text_of(schema.decimal(10, 2))(Decimal("1.005"))
    for kind in (schema.DOUBLE, schema.array(schema.TEXT)):
        with pytest.raises(ValueError, match="no canonical text"):
            canonical_text.text_of(kind)


def test_one_instant_has_one_text_in_any_zone() -> None:
    text = canonical_text.text_of(schema.TIMESTAMPTZ)
    here = datetime(2025, 1, 1, 1, tzinfo=timezone(timedelta(hours=2)))
    assert text(here) == text(here.astimezone(UTC)) == "2024-12-31 23:00:00.000000"
