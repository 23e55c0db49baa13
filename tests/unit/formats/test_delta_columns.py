"""By which names the columns of a version of a Delta table are read, where names are mapped to physical ones."""

from __future__ import annotations

import json
from typing import Any

from tidegate.formats.delta.log import Snapshot
from tidegate.formats.delta.table import PHYSICAL, as_seen, schema


def version(number: int, **columns: tuple[str, str | None]) -> Snapshot:
    """The table whose columns have these types and physical names."""
    fields: list[dict[str, Any]] = [
        {"name": name, "type": kind, "metadata": {} if known is None else {PHYSICAL: known}}
        for name, (kind, known) in columns.items()
    ]
    return Snapshot(number, {"schemaString": json.dumps({"fields": fields})}, {}, {}, ())


def test_a_column_is_told_by_its_physical_name():
    seen = schema(version(9, id=("long", "id"), total=("double", "amount"), grade=("integer", "col-7")))
    assert [column.ident for column in seen] == ["id", "amount", "col-7"]
    before_mapping = version(3, id=("integer", None), amount=("double", None))
    assert as_seen(before_mapping, seen) == [
        "CAST(`id` AS bigint) AS `id`",
        "`amount` AS `total`",
        "CAST(NULL AS int) AS `grade`",
    ]


def test_without_physical_names_a_name_is_all_that_tells_a_column():
    assert [column.ident for column in schema(version(1, id=("long", None)))] == [None]
