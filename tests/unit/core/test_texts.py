"""Canonical texts of values that Python holds, by the vectors that another program computed."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tidegate.core import schema, texts
from tidegate.core.fingerprint import Fingerprint
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


def test_vectors() -> None:
    kinds = [COLUMNS[column["type"]] for column in VECTORS["columns"]]
    columns = [Column(name=f"c{n}", type=kind) for n, (kind, _) in enumerate(kinds)]
    rows = [
        [None if text is None else made(text) for (_, made), text in zip(kinds, row["values"], strict=True)]
        for row in VECTORS["rows"]
    ]
    expected = [VECTORS["fingerprint"][name] for name in ("count", "s0", "s1", "s2", "s3")]
    assert texts.fingerprint(columns, rows) == Fingerprint.of_sums(expected)


def test_a_value_that_the_type_cannot_hold_has_no_text() -> None:
    with pytest.raises(ArithmeticError):
        texts.text_of(schema.decimal(10, 2))(Decimal("1.005"))
    for kind in (schema.DOUBLE, schema.array(schema.TEXT)):
        with pytest.raises(ValueError, match="no canonical text"):
            texts.text_of(kind)


def test_one_instant_has_one_text_in_any_zone() -> None:
    text = texts.text_of(schema.TIMESTAMPTZ)
    here = datetime(2025, 1, 1, 1, tzinfo=timezone(timedelta(hours=2)))
    assert text(here) == text(here.astimezone(UTC)) == "2024-12-31 23:00:00.000000"
