"""Columns, exact types, and changes between two schemas.

Independent of any database or file format.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum


class Kind(StrEnum):
    """The families of types that every part agrees on."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    DECIMAL = "decimal"
    FLOAT = "float"
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"
    TIMESTAMPTZ = "timestamptz"
    TEXT = "text"
    UUID = "uuid"
    BINARY = "binary"
    JSON = "json"
    ARRAY = "array"
    RESCUED = "rescued"


@dataclass(frozen=True, slots=True, kw_only=True)
class Type:
    """One exact type.

    Args:
        kind: the family.
        bits: INTEGER 32 or 64, FLOAT 32 or 64; 0 elsewhere.
        precision: DECIMAL, 1 to 38 digits.
        scale: DECIMAL, digits after the point.
        element: ARRAY, the type of its elements.
    """

    kind: Kind
    bits: int = 0
    precision: int = 0
    scale: int = 0
    element: Type | None = None

    @property
    def stored(self) -> Type:
        """The type that a lake table keeps: time, uuid and json are kept as their canonical text."""
        if self.kind in (Kind.TIME, Kind.UUID, Kind.JSON, Kind.RESCUED):
            return TEXT
        if self.kind is Kind.ARRAY and self.element is not None:
            return Type(kind=Kind.ARRAY, element=self.element.stored)
        return self

    @property
    def spark(self) -> str:
        """Spark's DDL text of the stored type."""
        stored = self.stored
        if stored.kind is Kind.DECIMAL:
            return f"decimal({stored.precision},{stored.scale})"
        if stored.kind is Kind.ARRAY:
            return f"array<{stored.element or TEXT}>"
        return SPARK_NAMES.get((stored.kind, stored.bits), str(stored.kind))

    @property
    def covered(self) -> bool:
        """Whether every engine can write this type as the same exact text (see `core/fingerprint`)."""
        return self.kind not in (Kind.FLOAT, Kind.ARRAY, Kind.RESCUED)

    def __str__(self) -> str:
        return self.spark


SPARK_NAMES = {
    (Kind.INTEGER, 32): "int",
    (Kind.INTEGER, 64): "bigint",
    (Kind.FLOAT, 32): "float",
    (Kind.FLOAT, 64): "double",
    (Kind.TIMESTAMP, 0): "timestamp_ntz",
    (Kind.TIMESTAMPTZ, 0): "timestamp",
    (Kind.TEXT, 0): "string",
}

BOOLEAN = Type(kind=Kind.BOOLEAN)
INT = Type(kind=Kind.INTEGER, bits=32)
BIGINT = Type(kind=Kind.INTEGER, bits=64)
REAL = Type(kind=Kind.FLOAT, bits=32)
DOUBLE = Type(kind=Kind.FLOAT, bits=64)
DATE = Type(kind=Kind.DATE)
TIME = Type(kind=Kind.TIME)
TIMESTAMP = Type(kind=Kind.TIMESTAMP)
TIMESTAMPTZ = Type(kind=Kind.TIMESTAMPTZ)
TEXT = Type(kind=Kind.TEXT)
UUID = Type(kind=Kind.UUID)
BINARY = Type(kind=Kind.BINARY)
JSON = Type(kind=Kind.JSON)


def decimal(precision: int, scale: int) -> Type:
    """A DECIMAL of at most 38 digits."""
    return Type(kind=Kind.DECIMAL, precision=precision, scale=scale)


def array(element: Type) -> Type:
    return Type(kind=Kind.ARRAY, element=element)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column: its exact name, its type, whether it may be NULL, and the source's own word for the type.

    Args:
        native: that word; None where it is not known.
        ident: what the source calls the column whatever its name is, such as PostgreSQL's attnum; None for nothing.
        comment: what the source says of it; no part of what makes two columns differ.
        as_text: its values are of another type at the source, where they sort differently than their texts.
    """

    name: str
    type: Type
    nullable: bool = True
    native: str | None = None
    ident: str | None = field(default=None, compare=False)
    comment: str = field(default="", compare=False)
    as_text: bool = field(default=False, compare=False)

    @property
    def label(self) -> str:
        """The type for people: in the source's own word, if that is known."""
        return str(self.type) if self.native is None else self.native


def every(name: str) -> bool:  # noqa: ARG001 - it takes them all
    """Leaves no column out."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnIds:
    """What a relation and its columns are called whatever their names are.

    Args:
        relation: such as a table's oid; columns of another relation are other columns, whatever their ids are.
        columns: the id of every column by its name, read or not.
        takes: whether the project reads a column of that name.
    """

    relation: str
    columns: Mapping[str, str]
    takes: Callable[[str], bool] = every


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """Columns in order; the order is part of the contract.

    Args:
        excluded: names of columns that the source has and the project does not read.
        comment: what the source says of the table.
        key: the columns that identify a row in a table that is made of these columns; empty for none.
        ids: what the relation and all of its columns are called otherwise; None where only names tell them.
    """

    columns: tuple[Column, ...]
    excluded: tuple[str, ...] = field(default=(), compare=False)
    comment: str = field(default="", compare=False)
    key: tuple[str, ...] = field(default=(), compare=False)
    ids: ColumnIds | None = field(default=None, compare=False)

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(column.name for column in self.columns)

    def commented(self, table: str, columns: Mapping[str, str]) -> Schema:
        """The same columns with what the source says of the table and of each of them."""
        columns_commented = tuple(replace(column, comment=columns.get(column.name, "")) for column in self.columns)
        return replace(self, columns=columns_commented, comment=table)

    def find(self, name: str) -> Column | None:
        """The column of exactly that name, or None."""
        return next((column for column in self.columns if column.name == name), None)

    @property
    def covered(self) -> tuple[Column, ...]:
        """The columns that a fingerprint covers, in order."""
        return tuple(column for column in self.columns if column.type.covered)

    @property
    def not_covered(self) -> tuple[str, ...]:
        """The names that no fingerprint covers; reports must list them."""
        return tuple(column.name for column in self.columns if not column.type.covered)

    @property
    def digest(self) -> str:
        """Sixteen hex digits that change when a name, a stored type or the order changes."""
        text = "\n".join(f"{column.name}\t{column.type.spark}" for column in self.columns)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


RESCUED = Column(name="_rescued", type=Type(kind=Kind.RESCUED))
"""Where values of columns that a table does not have are kept, as a JSON object of their canonical texts by name."""


class ChangeKind(StrEnum):
    """The ways in which a source's columns can differ from a table's; the keys of `contract:`."""

    ADD_COLUMN = "add_column"
    DROP_COLUMN = "drop_column"
    WIDEN = "widen"
    NARROW = "narrow"
    TYPE_CHANGE = "type_change"
    NULLABILITY = "nullability"
    RENAME = "rename"


FOLLOWED = frozenset({ChangeKind.ADD_COLUMN, ChangeKind.WIDEN, ChangeKind.RENAME, ChangeKind.NULLABILITY})
"""The changes that a table can follow without being written again."""


REPLACED = frozenset({ChangeKind.TYPE_CHANGE, ChangeKind.NARROW})
"""The changes for which every row of the table is rewritten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaChange:
    """One difference: `old` is the table's type, `new` the source's; None where the column is absent.

    Of a rename they are the column's names.
    """

    kind: ChangeKind
    column: str
    old: str | None
    new: str | None


def widens(old: Type, new: Type) -> bool:
    """True when every value of `old` is a value of `new` and Iceberg can promote it without a rewrite.

    Source: Iceberg specification, "Schema Evolution": int to long, float to double, a larger precision.
    """
    if old.kind is not new.kind:
        return False
    if old.kind in (Kind.INTEGER, Kind.FLOAT):
        return new.bits > old.bits
    return old.kind is Kind.DECIMAL and new.scale == old.scale and new.precision > old.precision


def holds(old: Type, new: Type) -> bool:
    """Whether every value of `old` is a value of `new`, with all of its digits.

    Example:
        >>> holds(INT, decimal(12, 2)), holds(BIGINT, decimal(12, 2)), holds(BIGINT, DOUBLE), holds(BIGINT, TEXT)
        (True, False, False, True)
    """
    match old.kind, new.kind:
        case Kind.INTEGER, Kind.DECIMAL:
            found = new.precision - new.scale >= (10 if old.bits == 32 else 19)
        case Kind.DECIMAL, Kind.DECIMAL:
            found = new.scale >= old.scale and new.precision - new.scale >= old.precision - old.scale
        case Kind.INTEGER, Kind.FLOAT:
            found = (old.bits, new.bits) == (32, 64)
        case Kind.DATE, Kind.TIMESTAMP:
            found = True
        case _, Kind.TEXT:
            found = old.covered and old.kind is not Kind.BINARY
        case _:
            found = old == new or widens(old, new)
    return found


def compare(*, source: Schema, table: Schema, renames: Mapping[str, str] | None = None) -> tuple[SchemaChange, ...]:
    """Every difference between the source's columns and the table's, in the source's order, drops last.

    A column that the project does not read is no difference, whatever the table has of it. But new rows have no value
    in it, nor in one that is gone: where the table requires one that is a difference.

    Args:
        renames: new names at the source to the names that the table has, see `source_columns.follow`.
    """
    changes: list[SchemaChange] = []
    renames = renames or {}
    for column in source:
        was = renames.get(column.name, column.name)
        if was != column.name:
            changes.append(SchemaChange(kind=ChangeKind.RENAME, column=column.name, old=was, new=column.name))
        known = table.find(was)
        new = column.type.stored
        if known is None:
            changes.append(_change(ChangeKind.ADD_COLUMN, column.name, None, new))
            continue
        old = known.type.stored
        if old != new:
            if widens(old, new):
                kind = ChangeKind.WIDEN
            elif widens(new, old):
                kind = ChangeKind.NARROW
            else:
                kind = ChangeKind.TYPE_CHANGE
            changes.append(_change(kind, column.name, old, new))
        if column.nullable and not known.nullable:
            changes.append(_change(ChangeKind.NULLABILITY, column.name, old, new))
    kept = {*source.names, *renames.values()}
    unfilled = [column for column in table if column.name not in kept]
    dropped = [(ChangeKind.DROP_COLUMN, column) for column in unfilled if column.name not in source.excluded]
    relaxed = [(ChangeKind.NULLABILITY, column) for column in unfilled if not column.nullable]
    return (*changes, *(_change(kind, column.name, column.type, None) for kind, column in (*dropped, *relaxed)))


def _change(kind: ChangeKind, column: str, old: Type | None, new: Type | None) -> SchemaChange:
    return SchemaChange(kind=kind, column=column, old=old.spark if old else None, new=new.spark if new else None)
