"""By which names the columns of a snapshot are read: field ids tell what a column is."""

from __future__ import annotations

from typing import Any

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


def test_a_snapshot_with_the_columns_of_the_table_is_read_as_it_is():
    assert as_now(table(*OLD), 7) is None


def test_a_renamed_column_keeps_its_values():
    renamed = table(OLD[0], field(2, "total", "long"), OLD[2])
    assert as_now(renamed, 7) == ["`id`", "`amount` AS `total`", "`Note`"]


def test_a_name_in_another_case_is_another_name():
    assert as_now(table(OLD[0], OLD[1], field(3, "note", "string")), 7) == ["`id`", "`amount`", "`Note` AS `note`"]


def test_columns_that_exchanged_their_names_exchange_no_values():
    exchanged = table(OLD[0], field(2, "Note", "long"), field(3, "amount", "string"))
    assert as_now(exchanged, 7) == ["`id`", "`amount` AS `Note`", "`Note` AS `amount`"]


def test_a_column_that_took_the_name_of_one_that_was_dropped_has_none_of_its_values():
    assert as_now(table(OLD[0], field(4, "amount", "long")), 7) == ["`id`", "CAST(NULL AS bigint) AS `amount`"]


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


def test_a_widened_column_is_as_wide_as_it_is_now():
    assert as_now(table(field(1, "id", "long"), OLD[1], OLD[2]), 7) == [
        "CAST(`id` AS bigint) AS `id`",
        "`amount`",
        "`Note`",
    ]


def test_columns_of_a_load_that_is_under_way_are_not_seen():
    assert as_now(table(*OLD, field(4, f"{REPLACING}amount", "string")), 7) is None


def test_a_type_that_is_not_loaded_is_passed_on_where_there_are_values():
    pair = {"type": "struct", "fields": [field(9, "a", "int")]}
    wider = {"type": "struct", "fields": [field(9, "a", "int"), field(10, "b", "int")]}
    assert as_now(table(field(1, "pair", wider), field(2, "other", wider), then=[field(1, "pair", pair)]), 7) == [
        "`pair`"
    ]


def test_a_snapshot_that_names_no_schema_is_read_with_the_newest():
    assert as_now(table(OLD[0], field(2, "total", "long"), OLD[2], written_with=None), 7) is None


def test_columns_are_those_that_were_looked_at_whatever_happened_since():
    seen = table(OLD[0], field(2, "total", "long"), field(4, "grade", "int", **{"initial-default": 3})).schema()
    now = table(field(1, "number", "long"), field(2, "sum", "long"))
    assert as_seen(now, 7, seen) == ["`id`", "`amount` AS `total`", "CAST(NULL AS int) AS `grade`"]
