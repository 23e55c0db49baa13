"""Interprets an Iceberg table's metadata JSON: snapshots, branches, position and columns.

Pure; never imports Spark or PyIceberg.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tidegate.core import schema as types
from tidegate.core.ports.format import Receipt
from tidegate.core.position import Position, columns_name, property_name, touched_name
from tidegate.core.schema import Column, ColumnIds, Schema, Type, every
from tidegate.core.source_columns import SourceColumns
from tidegate.errors import WriteError
from tidegate.formats.shared.columns import shown, type_of

_SIMPLE = {
    "boolean": types.BOOLEAN,
    "int": types.INT,
    "long": types.BIGINT,
    "float": types.REAL,
    "double": types.DOUBLE,
    "date": types.DATE,
    "timestamp": types.TIMESTAMP,
    "timestamptz": types.TIMESTAMPTZ,
    "string": types.TEXT,
    "uuid": types.UUID,
    "binary": types.BINARY,
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
COMPACTION = "replace"
"""The operation of a snapshot that moves rows between files. Source: Iceberg specification, "Snapshots"."""
_MERGED = "spark.merge-into.num-target-rows-"


REPLACING = "_tidegate_replacing_"
"""What the names of columns begin with that are about to take the place of others, see `replaced_columns`."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One version of the table; `summary` is the commit's own account of itself."""

    id: int
    parent: int | None
    summary: Mapping[str, str]

    def number(self, name: str) -> int:
        """A count of the summary, 0 where it is not stated."""
        return int(self.summary.get(name, 0))

    @property
    def rows(self) -> int | None:
        """Live rows; None where the summary cannot tell.

        Position deletes that outlive their data file (until maintenance removes them) make it an estimate; 0 is
        always exact.
        """
        total = self.number("total-records")
        deleted = self.number("total-position-deletes")
        if "total-records" not in self.summary or (total and self.number("total-equality-deletes")):
            return None
        if total == 0 or deleted == 0:
            return total
        return total - deleted if total > deleted else None

    def receipt(self) -> Receipt:
        """What the commit did to rows; of a merge by the counts that Spark puts into it."""
        if f"{_MERGED}inserted" in self.summary:
            return Receipt(
                snapshot=str(self.id),
                rows_inserted=self.number(f"{_MERGED}inserted"),
                rows_updated=self.number(f"{_MERGED}updated"),
                rows_deleted=self.number(f"{_MERGED}deleted"),
            )
        deleted = self.number("deleted-records") - self.number("removed-position-deletes")
        return Receipt(snapshot=str(self.id), rows_inserted=self.number("added-records"), rows_deleted=max(deleted, 0))


@dataclass(frozen=True, slots=True)
class Metadata:
    """An Iceberg table's metadata, as the specification names its parts."""

    raw: Mapping[str, Any]

    @property
    def uuid(self) -> str | None:
        """The table's own identity."""
        return self.raw.get("table-uuid")

    @property
    def location(self) -> str | None:
        return self.raw.get("location")

    @property
    def properties(self) -> Mapping[str, str]:
        """The table's properties."""
        return self.raw.get("properties") or {}

    @property
    def sorted(self) -> bool:
        return bool(self.raw.get("default-sort-order-id"))

    @property
    def main(self) -> int | None:
        """The visible snapshot; None for an empty table."""
        current = self.raw.get("current-snapshot-id")
        return None if current in (None, -1) else current

    def branches(self, prefix: str) -> tuple[str, ...]:
        """Names of branches that begin so."""
        return tuple(sorted(name for name in self.raw.get("refs") or {} if name.startswith(prefix)))

    def left(self, prefix: str) -> tuple[str, ...]:
        """What a killed load left: branches that begin so, and columns that were about to take the place of others."""
        columns = (field["name"] for field in self.fields() if field["name"].startswith(REPLACING))
        return (*self.branches(prefix), *columns)

    def head(self, branch: str) -> int | None:
        """The snapshot that a branch stands at; None if there is no such branch."""
        found = (self.raw.get("refs") or {}).get(branch)
        return found["snapshot-id"] if found else None

    def snapshot(self, wanted: int | None) -> Snapshot | None:
        """The snapshot of that id; None if it is expired or not given."""
        for each in self.raw.get("snapshots") or ():
            if each["snapshot-id"] == wanted:
                return Snapshot(each["snapshot-id"], each.get("parent-snapshot-id"), each.get("summary") or {})
        return None

    def sequence_number(self, wanted: int) -> int:
        """The number of the snapshot's commit, greater for a later one; always 0 in version 1 of the format."""
        kept = {each["snapshot-id"]: each.get("sequence-number") for each in self.raw.get("snapshots") or ()}
        return int(kept.get(wanted) or 0)

    def snapshots(self) -> Mapping[int, datetime]:
        """Every snapshot that is kept, and when it was made."""
        return {each["snapshot-id"]: moment(each["timestamp-ms"]) for each in self.raw.get("snapshots") or ()}

    def heads(self) -> frozenset[int]:
        """The snapshots at which branches and tags stand, main among them."""
        return frozenset(each["snapshot-id"] for each in (self.raw.get("refs") or {}).values())

    def seen(self) -> Sequence[tuple[int, datetime]]:
        """The snapshots that were the visible one and are kept, and since when, oldest first."""
        kept = {each["snapshot-id"] for each in self.raw.get("snapshots") or ()}
        log = self.raw.get("snapshot-log") or ()
        return [(each["snapshot-id"], moment(each["timestamp-ms"])) for each in log if each["snapshot-id"] in kept]

    def ancestors(self, start: int | None) -> Iterator[Snapshot]:
        """The snapshot and those it stands on, newest first, as far as they are kept."""
        known = {each["snapshot-id"]: each for each in self.raw.get("snapshots") or ()}
        while start is not None and (each := known.get(start)) is not None:
            found = Snapshot(start, each.get("parent-snapshot-id"), each.get("summary") or {})
            yield found
            start = found.parent

    def position(self, uid: str) -> tuple[Position, Snapshot] | None:
        """The newest position of the stream in the history of the visible snapshot, and the snapshot that carries it.

        Raises:
            WriteError: it is damaged or was written by a newer version.
        """
        name = property_name(uid)
        for each in self.ancestors(self.main):
            if name in each.summary:
                try:
                    return Position.from_json(each.summary[name]), each
                except ValueError as error:
                    raise WriteError(
                        f"the position in snapshot {each.id} cannot be read",
                        hint="Use the version of Tidegate that wrote it, or `tidegate state adopt STREAM`.",
                    ) from error
        return None

    def source_columns(self, uid: str) -> SourceColumns | None:
        """What the stream's newest load that said so said of the table's columns, by their present names."""
        name = columns_name(uid)
        found = next((each.summary[name] for each in self.ancestors(self.main) if name in each.summary), None)
        return None if found is None else SourceColumns.from_json(found, self.ids)

    @property
    def ids(self) -> Mapping[str, str]:
        """The number of every column by its name."""
        return {field["name"]: str(field["id"]) for field in self.fields() if "id" in field}

    def as_loaded(self, uid: str) -> bool:
        """Whether the visible rows are those that the stream's load left: nothing came since but compaction."""
        for each in self.ancestors(self.main):
            if property_name(uid) in each.summary:
                return touched_name(uid) not in each.summary
            if each.summary.get("operation") != COMPACTION:
                return False
        return False

    @property
    def partitioning(self) -> int:
        """The number of the partition spec that new rows follow."""
        return int(self.raw.get("default-spec-id", 0))

    def field(self, name: str) -> Mapping[str, Any] | None:
        """The current schema's field of that name."""
        return next((field for field in self.fields() if field["name"] == name), None)

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that identify a row, as the table says; empty where it says none."""
        chosen = self._schema_of(self.raw.get("current-schema-id", 0)).get("identifier-field-ids") or ()
        return tuple(field["name"] for field in self.fields() if field["id"] in chosen)

    def schema(self, takes: Callable[[str], bool] = every) -> Schema:
        """The columns of the current schema; of those that are not read the names alone.

        Raises:
            SchemaRefused: a column of a type that Tidegate does not load.
        """
        fields = [field for field in self.fields() if not field["name"].startswith(REPLACING)]
        return Schema(
            columns=tuple(
                Column(
                    name=field["name"],
                    type=_type(field["type"], field["name"]),
                    nullable=not field.get("required", False),
                    native=shown(field["type"]),
                    ident=str(field["id"]) if "id" in field else None,
                    comment=field.get("doc") or "",
                )
                for field in fields
                if takes(field["name"])
            ),
            excluded=tuple(field["name"] for field in fields if not takes(field["name"])),
            comment=self.properties.get("comment", ""),
            key=self.key,
            ids=ColumnIds(relation=self.uuid or "", columns=self.ids, takes=takes),
        )

    def fields(self) -> list[Mapping[str, Any]]:
        """The columns of the current schema as the metadata writes them."""
        return self.fields_of(self.raw.get("current-schema-id", 0))

    def fields_of(self, current: int) -> list[Mapping[str, Any]]:
        """Those of one of its schemas; of the last one if that is not kept."""
        fields: list[Mapping[str, Any]] = self._schema_of(current)["fields"]
        return fields

    def fields_at(self, snapshot: int) -> list[Mapping[str, Any]]:
        """Those that a snapshot is read with: of the schema that it was written with, if it says which."""
        kept = {each["snapshot-id"]: each.get("schema-id") for each in self.raw.get("snapshots") or ()}
        number = kept.get(snapshot)
        return self.fields() if number is None else self.fields_of(number)

    def fields_ever(self) -> list[Mapping[str, Any]]:
        """Those of every schema that is kept, those of the current one last."""
        return [*(field for each in self.raw.get("schemas") or () for field in each["fields"]), *self.fields()]

    def _schema_of(self, current: int) -> Mapping[str, Any]:
        schemas = self.raw.get("schemas") or [self.raw["schema"]]
        found: Mapping[str, Any] = next((each for each in schemas if each.get("schema-id", 0) == current), schemas[-1])
        return found


def moment(milliseconds: int) -> datetime:
    """A time of the metadata."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def spark_type(field: Mapping[str, Any]) -> str:
    """The field's type as Spark's DDL writes it. Raises SchemaRefused for one that Tidegate does not load."""
    return _type(field["type"], field["name"]).stored.spark


def _type(native: Any, column: str) -> Type:
    return type_of(native, column, scalar=_scalar, listed=("list", "element"))


def _scalar(native: str) -> Type | None:
    if found := _DECIMAL.fullmatch(native):
        return types.decimal(int(found[1]), int(found[2]))
    return types.BINARY if native.startswith("fixed[") else _SIMPLE.get(native)
