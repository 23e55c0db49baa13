"""Turns parsed messages into events: their columns, or the reason why an event is refused.

The reason never contains a value.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.core.log import CLEARS, KEY, ORIGIN, RAW, REFUSED, UNKNOWN, VALUE
from tidegate.core.schema import Column, Schema, Type
from tidegate.dialects.spark import LONG_STRINGS, Spark, json_text
from tidegate.envelopes import _connect as connect
from tidegate.envelopes import _schemas as schemas
from tidegate.envelopes._decode import Encoded, value
from tidegate.envelopes._schemas import KnownSchema
from tidegate.spark.dataframe_ops import DELETED, ORDER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CORRUPT = "__tidegate_corrupt"
FIELD = "struct<field: string, type: string, name: string, parameters: map<string, string>>"
"""A field of a schema of Connect, as far as it is looked at."""
ROW = "map<string, string>"
"""A row: its values by their names as JSON has them, strings without their quotes."""

MARKED = f'"{json_text.MARK}'
OPTIONS = f"map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '{CORRUPT}', {LONG_STRINGS})"
UNFIT = f"whole.{CORRUPT} IS NOT NULL"
"""Whether anything in a message has not the shape that was asked for, as all of what is no JSON."""
NO_OBJECT = "'it is not a complete JSON object'"
NOTHING = "CAST(NULL AS string)"


def _text(content: str) -> str:
    """Bytes as a text; NULL where they are none."""
    return f"if(is_valid_utf8(string({content})), string({content}), NULL)"


KEY_TEXT = json_text.marked(_text(KEY))
KEY_ROW = f"coalesce(get_json_object({KEY_TEXT}, '$.payload'), {KEY_TEXT})"
"""The JSON of a message's key, without the schema that it may carry."""


NAMES_KEY = f"coalesce(startswith({KEY_ROW}, '{{'), false)"
"""Whether a message's key tells columns; files have none, and some converters write it as a text."""


def in_key(column: str) -> str:
    """The condition that a message's key has that column."""
    return f"get_json_object({KEY_ROW}, {Spark().string(below('$', column))}) IS NOT NULL"


def below(path: str, name: str) -> str:
    """The path of a field of that name below another one, as `get_json_object` reads it."""
    return f"{path}['{name}']"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedEventColumns:
    """What an envelope's rows say of their events, each an expression.

    Args:
        refused: why the event cannot be taken; NULL for one that can.
        deleted, clears: whether it deletes its row, or all rows.
        fresh: whether nothing is known of the row but this event.
        unlogged: why a value is missing that the database did not log, where that cannot be borne.
        place: its order.
        written: its row as JSON, which few values have to be looked up in.
    """

    refused: str
    deleted: str
    clears: str
    fresh: str
    unlogged: str
    place: str
    written: str


def strange(fields: Sequence[str] | None, known: Sequence[KnownSchema], added: str | None = None) -> str:
    """Why a row is refused that has another field than these; NULL for one that has none.

    Of a message whose schema is known that is seen once, and not in each row.

    Args:
        fields: None for any.
        added: what begins so is no field of the row.
    """
    if fields is None:
        return NOTHING
    others = [{name for name in each.fields if not (added and name.startswith(added))} - set(fields) for each in known]
    unfit = ", ".join(str(number) for number, names in enumerate(others) if names)
    there = f"array_except(map_keys(row), CAST(array({', '.join(map(Spark().string, fields))}) AS array<string>))"
    names = there if added is None else f"filter({there}, n -> NOT startswith(n, {Spark().string(added)}))"
    reason = Spark().string("it has fields that are none of the columns: ")
    bare = Spark().string("; state them under `columns:` of the envelope")
    cut = Spark().string("; they came and went within this load, so let it take fewer events (`max_events`)")
    asked = f"WHEN known IS NULL THEN size({names}) > 0" + (f" WHEN known IN ({unfit}) THEN true" if unfit else "")
    hint = f"if(fields IS NULL AND known IS NULL, {bare}, {cut})"
    return f"CASE WHEN CASE {asked} END THEN concat({reason}, concat_ws(', ', {names}), {hint}) END"


def texts(names: Iterable[str]) -> str:
    """The type of a struct of texts of these names."""
    return f"struct<{', '.join(f'`{name}`: string' for name in names)}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Encodings:
    """How values are written.

    Args:
        stated: as the project says it where a message does not.
        unavailable: the text that stands for a value that nobody logged.
        known: schemas that messages are known to carry; another one is read in its message.
    """

    stated: Mapping[str, tuple[Type, connect.ColumnEncoding | None]]
    unavailable: str
    known: tuple[KnownSchema, ...] = ()


def parsed(messages: DataFrame, shape: str, parts: Iterable[str], known: Sequence[KnownSchema]) -> DataFrame:
    """Messages whose values are JSON; those without one are left out, they say nothing.

    Args:
        messages: `KEY`, `VALUE`, `ORIGIN`; also `problem` and `raw` where something else made JSON of them.
        parts: the expressions of what is wanted of a message, of `whole`, which is all of it in that shape.

    Rows: `KEY`, `VALUE`, `ORIGIN`, `known` (which of the known schemas it carries), `text` (without that), `raw` (the
    whole, base64 where it is no text), `broken`, why it cannot be read, and the parts.
    """
    made = "problem" in messages.columns
    present = messages.where(f"{VALUE} IS NOT NULL" + (" OR problem IS NOT NULL" if made else ""))
    more = ("problem", "raw") if made else (f"{NOTHING} AS problem", f"{NOTHING} AS raw")
    found = present.selectExpr(KEY, VALUE, ORIGIN, *more, f"{schemas.number(known)} AS known")
    one = json_text.one_document
    if known:
        found = found.selectExpr("*", f"{_text(schemas.content(known, 'known'))} AS rest")
        # What follows the payload belongs to the message, which is then read whole.
        found = found.selectExpr("*", f"known IS NOT NULL AND {one('rest')} AS cut")
        found = found.selectExpr(
            *(KEY, VALUE, ORIGIN, "problem", "raw"),
            *("if(cut, known, NULL) AS known", "cut", f"if(cut, rest, {_text(VALUE)}) AS text"),
        )
    else:
        found = found.selectExpr("*", "false AS cut", f"{_text(VALUE)} AS text")
    # The parser ends with the first value, whatever follows it, and takes the first of an array for it.
    blank = Spark().string(json_text.BLANK)
    begins = f"startswith(text, '{{') OR startswith(ltrim({blank}, text), '{{')"
    # Its key tells which row a message deletes that has no row itself.
    lost = f"{json_text.cannot_be_kept('text')} OR coalesce({json_text.cannot_be_kept(_text(KEY))}, false)"
    sound = f"({begins}) AND (cut OR {one('text')})"
    found = found.selectExpr(
        *(KEY, VALUE, ORIGIN, "problem", "raw", "known"),
        *(f"{json_text.marked('text')} AS text", f"{sound} AS sound", f"{lost} AS lost"),
    )
    found = found.selectExpr("*", f"from_json(text, '{shape}', {OPTIONS}) AS whole")
    broken = (
        "CASE WHEN problem IS NOT NULL THEN problem WHEN text IS NULL THEN 'it is not valid UTF-8' "
        f"WHEN whole IS NULL OR NOT sound THEN {NO_OBJECT} WHEN lost THEN '{json_text.NO_CHARACTER}' END"
    )
    raw = f"coalesce(raw, {_text(VALUE)}, base64({VALUE})) AS raw"
    return found.selectExpr(KEY, VALUE, ORIGIN, "known", "text", raw, f"{broken} AS broken", *parts)


def kept(rows: DataFrame, condition: str) -> DataFrame:
    """Those for which a condition on what was parsed is true.

    Spark asks a condition below the parser, which then reads a message for every name that is looked at; but not below
    what makes rows, if the condition looks at something of that, too.
    """
    return rows.selectExpr("*", "explode(array(true)) AS here").where(f"here = ({condition})")


def decoded(rows: DataFrame, schema: Schema, ways: Encodings, expressions: DecodedEventColumns) -> DataFrame:
    """Events of what was found in each message.

    In few projections, because Spark makes a row of each.

    Args:
        rows: `KEY`, `ORIGIN`, `known`, `text`, `raw`, `op`, `row` (a `ROW`), `fields` (of `FIELD`, as the message
            tells how its values are written; NULL where it does not), and what the expressions look at.

    Rows: see `core.ports.source.Log`.
    """
    columns = list(enumerate(schema))
    step = _taken(rows, columns, ways.unavailable, expressions)
    step = step.selectExpr(
        *(ORIGIN, "raw", "refused", "gone", "clears", "place", UNKNOWN),
        *(f"r{n} IS NOT NULL AS h{n}" for n, _ in columns),
        *(f"{value(column, _encoded(n, column, ways, expressions))} AS c{n}" for n, column in columns),
    )
    step = step.selectExpr("*", f"{_reasons(columns)} AS {REFUSED}")
    return step.selectExpr(
        *(f"c{n} AS {Spark().quote(column.name)}" for n, column in columns),
        f"gone AS {DELETED}",
        f"place AS {ORDER}",
        UNKNOWN,
        f"clears AS {CLEARS}",
        REFUSED,
        ORIGIN,
        f"if({REFUSED} IS NULL, NULL, raw) AS {RAW}",
    )


def _taken(
    rows: DataFrame, columns: Sequence[tuple[int, Column]], unavailable: str, expressions: DecodedEventColumns
) -> DataFrame:
    """What the expressions say, and of each column: `r`, its value as JSON has it, and `k`, its field."""
    raws = [f"row[{Spark().string(column.name)}]" for _, column in columns]
    held = [f"coalesce({raw} IN ({_holders(unavailable)}), false)" for raw in raws]
    # A row that only changed has its value elsewhere; one whose key changed has it under a key that is gone.
    unlogged = " ".join(
        f"WHEN {held[n]} THEN concat({Spark().string(f'column {column.name}: ')}, {expressions.unlogged})"
        for n, column in columns
    )
    absent = [f"{raw} IS NULL AND {_absent(column)}" for raw, (_, column) in zip(raws, columns, strict=True)]
    unknown = [f"{held[n]} OR {absent[n]}" for n, _ in columns]
    listed = ", ".join(f"if({unknown[n]}, {Spark().string(column.name)}, NULL)" for n, column in columns)
    return rows.selectExpr(
        *(KEY, ORIGIN, "known", "text", "raw", "op"),
        f"coalesce({expressions.refused}, if({expressions.fresh}, CASE {unlogged} END, NULL)) AS refused",
        f"{expressions.deleted} AS gone",
        f"{expressions.clears} AS clears",
        f"{expressions.place} AS place",
        f"if(NOT ({expressions.deleted} OR {expressions.clears}) AND ({' OR '.join(unknown)}), "
        f"array_compact(array({listed})), CAST(array() AS array<string>)) AS {UNKNOWN}",
        "fields IS NULL AS bare",
        *(f"if({held[n]}, NULL, {json_text.unmarked(raws[n])}) AS r{n}" for n, _ in columns),
        *(f"{field('fields', column.name)} AS k{n}" for n, column in columns),
    )


def _reasons(columns: Sequence[tuple[int, Column]]) -> str:
    """Why an event cannot be taken, of what the steps of `decoded` found of it; NULL for one that can."""
    bad = " ".join(f"WHEN h{n} AND c{n} IS NULL THEN {Spark().string(_type_mismatch(column))}" for n, column in columns)
    lost = Spark().string("its `source` does not give its position in the database's log")
    return f"coalesce(refused, CASE WHEN place IS NULL THEN {lost} END, CASE {bad} END)"


def field(fields: str, name: str) -> str:
    """The one of that name among fields of `FIELD`; NULL for none."""
    return f"get({fields}, CAST(array_position({fields}.field, {Spark().string(name)}) AS int) - 1)"


def _encoded(n: int, column: Column, ways: Encodings, expressions: DecodedEventColumns) -> Encoded:
    """A value and how it is written: as the message tells, else as the project does."""
    assumed = connect.assumed(column, ways.stated)
    known = [each.way(column.name) for each in ways.known]

    def way(part: str, own: str, stated: object = None) -> str:
        cases = " ".join(f"WHEN {number} THEN {_literal(getattr(each, part))}" for number, each in enumerate(known))
        other = f"if(bare, {_literal(stated)}, {own})"
        return f"CASE known {cases} ELSE {other} END" if cases else other

    # A quote that belongs to a text stands there after a backslash.
    name = json.dumps(column.name, ensure_ascii=False).replace("\\", "\\\\")
    escaped = "".join(f"\\{mark}" if mark in "\\^$.|?*+()[]{}" else mark for mark in name)
    pattern = Spark().string(f"(?<!\\\\){escaped}\\s*:\\s*(?:[-0-9]|{MARKED})")
    own = " OR ".join(f"startswith(k{n}.name, '{prefix}')" for prefix in connect.PREFIXES)
    return Encoded(
        raw=f"r{n}",
        type=way("type", f"k{n}.type", assumed.type),
        name=way("name", f"if({own}, substring_index(k{n}.name, '.', -1), '')", assumed.name),
        scale=way("scale", f"k{n}.parameters['scale']", assumed.scale),
        length=way("length", f"k{n}.parameters['length']"),
        # No AND: what several columns have behind one Spark computes before it, once for all of them.
        number=f"CASE WHEN r{n} RLIKE '^-?[0-9.]+([eE].*)?$' THEN {expressions.written} RLIKE {pattern} ELSE false END",
    )


def _literal(content: object) -> str:
    return NOTHING if content is None else Spark().string(str(content))


def _absent(column: Column) -> str:
    return f"coalesce(NOT map_contains_key(row, {Spark().string(column.name)}), false)"


def _type_mismatch(column: Column) -> str:
    return f"column {column.name}: its value does not fit {column.type}"


def unlogged(connector: str) -> str:
    """Why a placeholder cannot be borne; an expression, as `connector` is."""
    others = "'the database did not log its value when the key changed (REPLICA IDENTITY FULL does)'"
    oracle = (
        "'its value is missing; the connector has to capture it (`lob.enabled=true`) and the envelope to know that "
        "(`lob_enabled: true`)'"
    )
    return f"if({connector} = 'oracle', {oracle}, {others})"


def _holders(unavailable: str) -> str:
    """The texts that stand for a value that nobody logged, one for each kind of column that has a form of its own.

    Source: Debezium, `UnchangedToastedPlaceholder` and `PostgresValueConverter.handleUnknownData`: the placeholder as a
    text, as bytes, as the one pair of an hstore, as the one element of an array of texts or of bytes, as the UUID of
    its name in one of UUIDs, and in any other array with an element for each of its bytes.
    """
    raw = unavailable.encode()
    named = uuid.UUID(bytes=hashlib.md5(raw, usedforsecurity=False).digest(), version=3)
    each = [(byte + 128) % 256 - 128 for byte in raw]  # a byte of Java has a sign
    digits = [base64.b64encode(bytes([byte])).decode() for byte in raw]
    nested: list[object] = [
        {unavailable: unavailable},
        *([unavailable], [base64.b64encode(raw).decode()], [str(named)]),
        *(each, [f"{json_text.MARK}{number}.0" for number in each], [number != 0 for number in each]),
        *(digits, [{"scale": 0, "value": digit} for digit in digits]),
    ]
    texts = (json.dumps(one, separators=(",", ":"), ensure_ascii=False) for one in nested)
    return ", ".join(map(Spark().string, (unavailable, base64.b64encode(raw).decode(), *texts)))
