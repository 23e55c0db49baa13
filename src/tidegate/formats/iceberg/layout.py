"""Tells how an Iceberg table is laid out, and changes its partitioning to a stream's layout.

Generates SQL only. Existing files stay as they are; only new rows use the new partitioning.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tidegate.core.ids import Target
from tidegate.core.policies.maintenance import Usage
from tidegate.core.table_facts import TableFacts
from tidegate.formats.iceberg.ddl import HALVED, distribution, partitions, set_property
from tidegate.formats.iceberg.metadata import Metadata
from tidegate.formats.iceberg.overflow import OverflowingField
from tidegate.formats.shared.storage import usage
from tidegate.spark import sql
from tidegate.storage import Store

TAKEN_AWAY = "tidegate.layout.taken-away"
_NUMBERED = re.compile(r"(bucket|truncate)\[(\d+)\]")
_WRITTEN = re.compile(r"(?P<word>[a-z]+)\((?:(?P<number>\d+)\s*,\s*)?(?P<column>.+)\)", re.DOTALL)


def differs(raw: Mapping[str, Any], wanted: Sequence[str]) -> str | None:
    """Why the table's partitions are not those of the layout; None where they are or none is asked for."""
    found, wanted = current(raw), kept(wanted, raw.get("properties") or {})
    if not wanted or [_normal(each) for each in wanted] == [_normal(each) for each in found]:
        return None
    return f"the table is partitioned by {', '.join(found) or 'nothing'}, but layout says {', '.join(wanted)}"


def kept(wanted: Sequence[str], properties: Mapping[str, str]) -> tuple[str, ...]:
    """The layout without the fields that a load took away, because values came that they would misplace."""
    taken = json.loads(properties.get(TAKEN_AWAY, "[]"))
    return tuple(each for each in wanted if list(_normal(each)) not in taken)


def take_away(target: Target, metadata: Metadata, fields: Sequence[OverflowingField]) -> Iterator[str]:
    """The statements that drop fields from the partitioning and note it, so that maintenance adds none again."""
    taken = json.loads(metadata.properties.get(TAKEN_AWAY, "[]"))
    taken += [list(_normal(f"truncate({each.width}, {each.column})")) for each in fields]
    yield set_property(target, TAKEN_AWAY, json.dumps(taken))
    for each in fields:
        yield f"ALTER TABLE {sql.table(target)} DROP PARTITION FIELD {each.field}"


def current(raw: Mapping[str, Any]) -> tuple[str, ...]:
    """What the table is partitioned by, as a layout writes it.

    Example:
        >>> fields = [{"id": 1, "name": "at"}]
        >>> spec = {"spec-id": 0, "fields": [{"source-id": 1, "transform": "day"}]}
        >>> current({"schemas": [{"fields": fields}], "partition-specs": [spec], "default-spec-id": 0})
        ('days(at)',)
    """
    names = {field["id"]: field["name"] for schema in raw.get("schemas", ()) for field in schema["fields"]}
    specs = {each["spec-id"]: each["fields"] for each in raw.get("partition-specs") or ()}
    live = (field for field in specs.get(raw.get("default-spec-id"), ()) if field["transform"] != "void")
    return tuple(_as_written(field["transform"], names[field["source-id"]]) for field in live)


def facts(metadata: Metadata) -> TableFacts:
    """Layout and size of the visible version, as its snapshot counts them."""
    snapshot = metadata.snapshot(metadata.main)
    counted = {name: int(text) for name, text in (snapshot.summary if snapshot else {}).items() if text.isdigit()}
    files, size = counted.get("total-data-files"), counted.get("total-files-size")
    return TableFacts(
        format=f"iceberg {metadata.raw['format-version']}",
        partition_by=current(metadata.raw),
        sort_by=_sorted(metadata.raw),
        files=0 if metadata.main is None else files,
        bytes=0 if metadata.main is None else size,
        delete_files=0 if metadata.main is None else counted.get("total-delete-files"),
    )


def taken(metadata: Metadata, open_store: Callable[[str], Store]) -> Usage | None:
    """What lies below the table's location; None where that cannot be listed."""
    head = metadata.snapshot(metadata.main)
    if metadata.location is None or (head and "total-files-size" not in head.summary):
        return None
    files = head.number("total-data-files") + head.number("total-delete-files") if head else 0
    size = head.number("total-files-size") if head else 0
    return usage(metadata.location, files=files, size=size, open_store=open_store)


def _sorted(raw: Mapping[str, Any]) -> tuple[str, ...]:
    names = {field["id"]: field["name"] for schema in raw.get("schemas", ()) for field in schema["fields"]}
    orders = {each["order-id"]: each["fields"] for each in raw.get("sort-orders") or ()}
    fields = orders.get(raw.get("default-sort-order-id"), ())
    return tuple(_as_written(field["transform"], names[field["source-id"]]) for field in fields)


def evolve(target: Target, metadata: Metadata, wanted: Sequence[str]) -> Iterator[str]:
    """The statements that drop the fields that are not wanted and add those that are.

    Raises:
        ConfigError: the layout names a column or transform that there is not.
    """
    columns, table = metadata.schema(), sql.table(target)
    wanted = kept(wanted, metadata.properties)
    have = {_normal(each): each for each in current(metadata.raw)}
    want = {_normal(each): each for each in wanted}
    added = partitions([each for key, each in want.items() if key not in have], columns)
    for each in partitions([each for key, each in have.items() if key not in want], columns):
        yield f"ALTER TABLE {table} DROP PARTITION FIELD {each}"
    for each in added:
        yield f"ALTER TABLE {table} ADD PARTITION FIELD {each}"
    # Set for tables without partitions, or with two; with more, rows have to be brought together before a write.
    needed = distribution(wanted, columns)
    unset = [name for name, value in HALVED.items() if metadata.properties.get(name) == value and name not in needed]
    if unset:
        yield f"ALTER TABLE {table} UNSET TBLPROPERTIES ({', '.join(map(sql.string, unset))})"


def _as_written(transform: str, column: str) -> str:
    if transform == "identity":
        return column
    numbered = _NUMBERED.fullmatch(transform)
    return f"{numbered[1]}({numbered[2]}, {column})" if numbered else f"{transform}s({column})"


def _normal(expression: str) -> tuple[str, str, str]:
    text = expression.strip()
    found = _WRITTEN.fullmatch(text)
    if found is None:
        return "", "", text
    return found["word"].removesuffix("s"), found["number"] or "", found["column"].strip()
