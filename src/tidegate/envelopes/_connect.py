"""Maps types of Kafka Connect to exact types, and parses the `columns:` of messages without a schema.

Never guesses an encoding that the messages do not state.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidegate.core import schema as types
from tidegate.core.schema import Column, Kind, Schema, Type, array, decimal
from tidegate.dialects.shared.type_names import parse_type
from tidegate.errors import ConfigError

WORDS = {"timestamptz": types.TIMESTAMPTZ, "float": types.REAL}
PREFIXES = ("io.debezium.", "org.apache.kafka.connect.data.")
"""The names of what is more than its plain type; their last part says what it is, in both the same."""

NAMED: Mapping[str, Type] = {
    "Date": types.DATE,
    "IsoDate": types.DATE,
    "IsoTime": types.TIME,
    "IsoTimestamp": types.TIMESTAMP,
    "Json": types.JSON,
    "MicroTime": types.TIME,
    "MicroTimestamp": types.TIMESTAMP,
    "NanoTime": types.TIME,
    "NanoTimestamp": types.TIMESTAMP,
    "Time": types.TIME,
    "Timestamp": types.TIMESTAMP,
    "Uuid": types.UUID,
    "VariableScaleDecimal": types.TEXT,
    "Bits": types.TEXT,
    "Year": types.INT,
    "ZonedTimestamp": types.TIMESTAMPTZ,
}
PLAIN: Mapping[str, Type] = {
    "boolean": types.BOOLEAN,
    "bytes": types.BINARY,
    "double": types.DOUBLE,
    "float": types.REAL,
    "float32": types.REAL,
    "float64": types.DOUBLE,
    "int16": types.INT,
    "int32": types.INT,
    "int64": types.BIGINT,
    "int8": types.INT,
    "string": types.TEXT,
}
UNSIGNED = "BIGINT UNSIGNED"
PROPAGATED = "__debezium.source.column.type"
"""The parameter by which a connector tells the database's own type, where it is asked to."""
IN_ARRAYS = (types.BOOLEAN, types.INT, types.BIGINT, types.TEXT, types.UUID)

WAYS: Mapping[Kind, tuple[str, ...]] = {
    Kind.BINARY: ("bytes", "hex"),
    Kind.DATE: ("Date", "IsoDate"),
    Kind.DECIMAL: ("bytes", "string", "double"),
    Kind.TIME: ("MicroTime", "Time", "NanoTime", "IsoTime"),
    Kind.TIMESTAMP: ("MicroTimestamp", "Timestamp", "NanoTimestamp", "IsoTimestamp"),
    Kind.TIMESTAMPTZ: ("ZonedTimestamp", "MicroTimestamp", "Timestamp"),
}
"""How a value of a kind may be written, first what Debezium writes by default; nothing for kinds written one way."""

CERTAIN = {Kind.DATE, Kind.TIMESTAMPTZ}
"""Kinds of several ways that connectors rarely change, so that the first one holds unless another is stated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnEncoding:
    """How the values of a column are written: Connect's type, the last part of its name, and what that needs."""

    type: str
    name: str = ""
    scale: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldEncoding:
    """How a message's schema says that the values of a column are written; None for what it leaves out."""

    type: str | None
    name: str
    scale: str | None
    length: str | None


def loaded(value: bytes | None) -> object:
    """What a message holds, as far as it is JSON."""
    try:
        return json.loads(value) if value else None
    except (ValueError, RecursionError):  # too deep for Python: the event is refused where it is read
        return None


def fields_of(message: Any, *parts: str) -> Sequence[Mapping[str, Any]] | None:
    """The fields of a row in the schema that a message carries; None where it carries none.

    Args:
        parts: the first of them that the message has holds the row; none where the message is the row.
    """
    if not isinstance(message, dict) or not isinstance(message.get("schema"), dict) or "payload" not in message:
        return None
    fields = message["schema"].get("fields")
    if not isinstance(fields, list):
        return None
    if not parts:
        return fields
    inside = {field.get("field"): field.get("fields") for field in fields if isinstance(field, dict)}
    return next((inside[part] for part in parts if isinstance(inside.get(part), list)), None)


def columns_of(fields: Sequence[Mapping[str, Any]]) -> list[Column]:
    """The columns that such fields become, in their order."""
    return [
        Column(
            name=field["field"], type=type_of(field), nullable=bool(field.get("optional", True)), native=_native(field)
        )
        for field in fields
        if isinstance(field, Mapping) and isinstance(field.get("field"), str)
    ]


def merged_schema(schemas: Sequence[Sequence[Column]]) -> Schema:
    """One schema of what several messages tell: of the newest, which is the last, then what only others had."""
    columns: dict[str, Column] = {}
    for each in reversed(schemas):
        for column in each:
            columns.setdefault(column.name, column)
    return Schema(columns=tuple(columns.values()))


def fields_known(
    messages: Sequence[Sequence[Mapping[str, Any]]], stated_of: Mapping[str, str], table: Schema | None
) -> tuple[str, ...] | None:
    """The fields that a row may have: those of messages, and stated ones; None where the table alone tells its columns.

    A field that it has not then is of a column that is gone.
    """
    if not messages and (table is not None or not stated_of):
        return None
    return tuple(dict.fromkeys([*merged_schema([columns_of(each) for each in messages]).names, *stated_of]))


def schema_of(
    messages: Sequence[Sequence[Mapping[str, Any]]], stated_of: Mapping[str, str], table: Schema | None
) -> Schema:
    """The columns of a table: as the messages tell them, else as it has them itself, else as they are stated.

    Args:
        messages: the fields of messages, the newest last.
        stated_of: types that hold whatever else is told, as under `columns:`.
        table: its own columns, whose types hold where nothing is stated.

    Raises:
        ConfigError: nothing tells them, or not how their values are written.
    """
    known = stated(stated_of)
    found = merged_schema([columns_of(fields) for fields in messages]) if messages else table
    if found is None:
        found = Schema(columns=tuple(Column(name=name, type=kind) for name, (kind, _) in known.items()))
    if not found.columns:
        raise ConfigError(
            "the messages carry no schema, so the columns are unknown",
            hint="Declare them: `envelope: {kind: debezium, columns: {id: bigint, amount: decimal(10,2) as bytes}}`, "
            "or "
            "set `value.converter.schemas.enable=true` in the connector.",
        )
    own = {column.name: column for column in table or ()}
    columns = []
    for each in found:
        column = own.get(each.name, each)
        columns.append(replace(column, type=known[each.name][0]) if each.name in known else column)
    schema = Schema(columns=tuple(columns))
    if not messages and (problem := ambiguous_columns(schema, known)):
        raise problem
    return schema


def type_of(field: Mapping[str, Any]) -> Type:
    """The type that keeps every value of a field; JSON for what is nested."""
    name, kind = short(field.get("name")), str(field.get("type"))
    parameters = field.get("parameters") or {}
    if name == "Decimal":
        return _decimal(parameters)
    if _is_unsigned(field):
        return decimal(20, 0)
    if kind == "array":
        element = type_of(field.get("items") or {})
        return array(element) if element in IN_ARRAYS else types.JSON
    return NAMED.get(name) or PLAIN.get(kind, types.JSON)


def short(name: Any) -> str:
    """The last part of a name that Connect or Debezium gave a type; empty for any other.

    Example:
        >>> short("io.debezium.time.MicroTimestamp"), short("com.example.Timestamp")
        ('MicroTimestamp', '')
    """
    text = name if isinstance(name, str) else ""
    return text.rpartition(".")[2] if text.startswith(PREFIXES) else ""


def stated(columns: Mapping[str, str]) -> dict[str, tuple[Type, ColumnEncoding | None]]:
    """The types under `columns:`, each `TYPE` or `TYPE as WAY`; None where the messages have to tell the way.

    Raises:
        ConfigError: an unknown type, or a way that a type is not written in.

    Example:
        >>> stated({"amount": "decimal(10,2) as bytes"})["amount"][1]
        ColumnEncoding(type='bytes', name='Decimal', scale=2)
    """
    return {name: _stated(name, text) for name, text in columns.items()}


def _stated(column: str, text: str) -> tuple[Type, ColumnEncoding | None]:
    word, _, way = (part.strip() for part in text.partition(" as "))
    kind = WORDS.get(word.lower()) or parse_type(column, word)
    ways = WAYS.get(kind.kind, ())
    if not way:
        return kind, _written(kind, ways[0]) if kind.kind in CERTAIN else None if ways else _written(kind, "")
    if way not in ways:
        known = f"`{word} as` one of {', '.join(ways)}" if ways else f"`{word}` alone"
        raise ConfigError(f"columns: {column}: {text!r} is not a known encoding of values; use {known}", column=column)
    return kind, _written(kind, way)


def _written(kind: Type, way: str) -> ColumnEncoding:
    if kind.kind is Kind.DECIMAL:
        return (
            ColumnEncoding(type="bytes", name="Decimal", scale=kind.scale)
            if way == "bytes"
            else ColumnEncoding(type=way)
        )
    if kind.kind is Kind.BINARY:
        return ColumnEncoding(type="bytes") if way == "bytes" else ColumnEncoding(type="string", name="Hex")
    if way:
        return ColumnEncoding(type="string" if way.startswith(("Iso", "Zoned")) else "int64", name=way)
    return ColumnEncoding(type={"int": "int32", "bigint": "int64"}.get(kind.spark, "string"))


def ambiguous_columns(schema: Schema, known: Mapping[str, tuple[Type, ColumnEncoding | None]]) -> ConfigError | None:
    """What to write when messages without a schema hold a column that may be written in several ways."""
    for column in schema:
        written = known.get(column.name, (None, None))[1]
        ways = WAYS.get(column.type.kind, ())
        if written is None and ways and column.type.kind not in CERTAIN:
            return ConfigError(
                f"the messages carry no schema, and column {column.name!r} of type {column.type} may be encoded as "
                f"{', '.join(ways)}",
                hint=f"Declare it: `envelope: {{columns: {{{column.name}: {column.type} as {ways[0]}}}}}`, or set "
                "`value.converter.schemas.enable=true` in the connector.",
                column=column.name,
            )
    return None


def assumed(column: Column, known: Mapping[str, tuple[Type, ColumnEncoding | None]]) -> ColumnEncoding:
    """How a column is written where nothing but its type tells."""
    written = known.get(column.name, (None, None))[1]
    ways = WAYS.get(column.type.kind, ("",))
    return written or _written(column.type, ways[0])


def _decimal(parameters: Mapping[str, Any]) -> Type:
    """Up to 38 digits a decimal, beyond that its exact text."""
    scale = int(parameters.get("scale", 0))
    precision = int(parameters.get("connect.decimal.precision", 38))
    if scale < 0:
        precision, scale = precision - scale, 0
    precision = max(precision, scale)
    return decimal(precision, scale) if precision <= 38 else types.TEXT


def _is_unsigned(field: Mapping[str, Any]) -> bool:
    """Whether it is a number without a sign in one with a sign, where the greater half is negative."""
    parameters = field.get("parameters") or {}
    return field.get("type") == "int64" and str(parameters.get(PROPAGATED)).upper() == UNSIGNED


def _native(field: Mapping[str, Any]) -> str:
    if _is_unsigned(field):
        return UNSIGNED.lower()
    return str(field.get("name") or field.get("type") or "")
