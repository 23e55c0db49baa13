"""By which names the columns of a snapshot are read: field ids tell what a column is."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.formats.iceberg.metadata import REPLACING, Metadata
from tidegate.formats.iceberg.named import as_now, as_seen

OLD = [
    {"id": 1, "name": "id", "type": "int"},
    {"id": 2, "name": "amount", "type": "long"},
    {"id": 3, "name": "Note", "type": "string"},
]


def table(*now: dict[str, Any], then: list[dict[str, Any]] = OLD, written_with: int | None = 0) -> Metadata:
    """A table whose only snapshot was written before its columns were changed."""
    made = {"snapshot-id": 7, **({} if written_with is None else {"schema-id": written_with})}
    schemas = [{"schema-id": 0, "fields": then}, {"schema-id": 1, "fields": list(now)}]
    return Metadata({"schemas": schemas, "current-schema-id": 1, "snapshots": [made], "current-snapshot-id": 7})


def field(number: int, name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"id": number, "name": name, "type": kind, **more}


PAIR = {"type": "struct", "fields": [field(9, "a", "int")]}
WIDER = {"type": "struct", "fields": [field(9, "a", "int"), field(10, "b", "int")]}
TOTAL = (OLD[0], field(2, "total", "long"), OLD[2])
READ = {
    "the columns of the table are read as they are": (table(*OLD), None),
    "a renamed column keeps its values": (table(*TOTAL), ["`id`", "`amount` AS `total`", "`Note`"]),
    "a name in another case is another name": (
        table(OLD[0], OLD[1], field(3, "note", "string")),
        ["`id`", "`amount`", "`Note` AS `note`"],
    ),
    "columns that exchanged their names exchange no values": (
        table(OLD[0], field(2, "Note", "long"), field(3, "amount", "string")),
        ["`id`", "`amount` AS `Note`", "`Note` AS `amount`"],
    ),
    "one that took the name of one that was dropped has none of its values": (
        table(OLD[0], field(4, "amount", "long")),
        ["`id`", "CAST(NULL AS bigint) AS `amount`"],
    ),
    "a widened column is as wide as it is now": (
        table(field(1, "id", "long"), OLD[1], OLD[2]),
        ["CAST(`id` AS bigint) AS `id`", "`amount`", "`Note`"],
    ),
    "columns of a load that is under way are not seen": (table(*OLD, field(4, f"{REPLACING}amount", "string")), None),
    "a type that is not loaded is passed on where there are values": (
        table(field(1, "pair", WIDER), field(2, "other", WIDER), then=[field(1, "pair", PAIR)]),
        ["`pair`"],
    ),
    "a snapshot that names no schema is read with the newest": (table(*TOTAL, written_with=None), None),
}


@pytest.mark.parametrize(("metadata", "columns"), READ.values(), ids=READ)
def test_a_snapshot_is_read_by_what_a_column_is(metadata, columns):
    assert as_now(metadata, 7) == columns


def test_a_younger_column_has_its_initial_default():
    younger = [
        field(4, "grade", "int", **{"initial-default": 3}),
        field(5, "price", "decimal(9, 2)", **{"initial-default": "14.20"}),
        field(6, "open", "boolean", **{"initial-default": False}),
        field(7, "code", "fixed[2]", **{"initial-default": "00ff"}),
        field(8, "label", "string", **{"initial-default": "it's"}),
        field(9, "since", "timestamptz", **{"initial-default": "2026-01-02T03:04:05.000006+00:00"}),
        field(10, "tags", {"type": "list", "element": "string"}),
    ]
    assert as_now(table(OLD[0], *younger), 7) == [
        "`id`",
        "CAST('3' AS int) AS `grade`",
        "CAST('14.20' AS decimal(9,2)) AS `price`",
        "CAST(false AS boolean) AS `open`",
        "CAST(X'00ff' AS binary) AS `code`",
        r"CAST('it\'s' AS string) AS `label`",
        "CAST('2026-01-02T03:04:05.000006+00:00' AS timestamp) AS `since`",
        "CAST(NULL AS array<string>) AS `tags`",
    ]


def test_columns_are_those_that_were_looked_at_whatever_happened_since():
    seen = table(OLD[0], field(2, "total", "long"), field(4, "grade", "int", **{"initial-default": 3})).schema()
    now = table(field(1, "number", "long"), field(2, "sum", "long"))
    assert as_seen(now, 7, seen) == ["`id`", "`amount` AS `total`", "CAST(NULL AS int) AS `grade`"]
