"""Decides how what an envelope found in each message becomes an event: its columns, or the reason why it is refused.

Called by the envelopes of Debezium. Must never let a value that does not fit become NULL, nor name it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from tidegate.core.log import CLEARS, KEY, ORIGIN, PLACE, RAW, REFUSED, UNKNOWN, VALUE
from tidegate.core.schema import Column, Schema, Type
from tidegate.dialects.spark import Spark
from tidegate.envelopes import _connect as connect
from tidegate.envelopes._decode import Encoded, value
from tidegate.spark.frames import GONE, ORDER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CORRUPT = "__tidegate_corrupt"
FIELD = "struct<field: string, type: string, name: string, parameters: map<string, string>>"
"""A field of a schema of Connect, as far as it is looked at."""

OPTIONS = f"map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '{CORRUPT}')"
NOTHING = "CAST(NULL AS string)"
KEY_TEXT = f"if(is_valid_utf8(string({KEY})), string({KEY}), NULL)"
KEY_ROW = f"coalesce(get_json_object({KEY_TEXT}, '$.payload'), {KEY_TEXT})"
"""The JSON of a message's key, without the schema that it may carry."""


def texts(names: Iterable[str]) -> str:
    """The type of a struct of texts of these names."""
    return f"struct<{', '.join(f'`{name}`: string' for name in names)}>"


def parsed(messages: DataFrame, shape: str) -> DataFrame:
    """Messages whose values are JSON; those without one are left out, they say nothing.

    Args:
        messages: `KEY`, `VALUE`, `PLACE`, `ORIGIN`; also `problem` and `raw` where something else made JSON of them.

    Rows: `KEY`, `PLACE`, `ORIGIN`, `text`, `parsed` (of that shape), `raw` (the text, base64 where it is none), and
    `broken`, why it cannot be read.
    """
    made = "problem" in messages.columns
    present = messages.where(f"{VALUE} IS NOT NULL" + (" OR problem IS NOT NULL" if made else ""))
    text = f"if(is_valid_utf8(string({VALUE})), string({VALUE}), NULL)"
    more = ("problem", "raw") if made else (f"{NOTHING} AS problem", f"{NOTHING} AS raw")
    found = present.selectExpr(KEY, VALUE, PLACE, ORIGIN, f"{text} AS text", *more)
    found = found.selectExpr("*", f"from_json(text, '{shape}', {OPTIONS}) AS parsed")
    # The parser ends with the first value, whatever follows it, and takes the first of an array for it.
    blank = r"' \n\r\t'"
    begins = f"startswith(text, '{{') OR startswith(ltrim({blank}, text), '{{')"
    whole = f"({begins}) AND (endswith(text, '}}') OR endswith(rtrim({blank}, text), '}}'))"
    broken = (
        "CASE WHEN problem IS NOT NULL THEN problem WHEN text IS NULL THEN 'it is no text in UTF-8' "
        f"WHEN parsed IS NULL OR parsed.{CORRUPT} IS NOT NULL OR NOT ({whole}) THEN 'it is no whole JSON object' END"
    )
    raw = f"coalesce(raw, text, base64({VALUE})) AS raw"
    return found.selectExpr(KEY, PLACE, ORIGIN, "text", "parsed", f"{broken} AS broken", raw)


def kinds(fields: str) -> str:
    """A map of a column's name to how it is written; NULL without fields."""
    name = " OR ".join(f"startswith(f.name, '{prefix}')" for prefix in connect.PREFIXES)
    told = (
        f"named_struct('type', f.type, 'name', if({name}, substring_index(f.name, '.', -1), ''), "
        "'scale', f.parameters['scale'], 'length', f.parameters['length'])"
    )
    return f"map_from_entries(transform({fields}, f -> struct(f.field, {told})))"


def decoded(
    rows: DataFrame, schema: Schema, stated: Mapping[str, tuple[Type, connect.Written | None]], unavailable: str
) -> DataFrame:
    """Events of what was found in each message.

    Args:
        rows: `KEY`, `ORIGIN`, `raw`, `refused`, `gone`, `clears`, `fresh` (nothing is known of the row but this event),
            `place` (the order), `row` (JSON), `kinds` and `bare` (the message tells nothing of how its values are
            written).
        unavailable: the text that stands for a value that nobody logged.

    Rows: see `core.log.Logged`.
    """
    columns = list(enumerate(schema))
    opened = rows.selectExpr("*", "from_json(row, 'map<string, string>') AS map")
    step = opened.selectExpr(
        *(ORIGIN, "raw", "refused", "gone", "clears", "fresh", "place", "row", "map"),
        *(f"map[{Spark().string(column.name)}] AS r{n}" for n, column in columns),
        *(f"{_kind(column, stated)} AS k{n}" for n, column in columns),
    )
    holders = _holders(unavailable)
    step = step.selectExpr(
        *(ORIGIN, "raw", "refused", "gone", "clears", "fresh", "place"),
        "map IS NULL AND row IS NOT NULL AS unread",
        *(f"r{n} IS NOT NULL AS h{n}" for n, _ in columns),
        *(f"coalesce(r{n} IN ({holders}), false) AS p{n}" for n, _ in columns),
        *(f"coalesce(r{n} IN ({holders}), false) OR {_absent(column)} AS u{n}" for n, column in columns),
        *(f"{value(column, _encoded(n, column))} AS c{n}" for n, column in columns),
    )
    unknown = ", ".join(f"if(u{n}, {Spark().string(column.name)}, NULL)" for n, column in columns)
    step = step.selectExpr("*", f"{_reasons(columns)} AS {REFUSED}")
    return step.selectExpr(
        *(f"if(u{n}, NULL, c{n}) AS {Spark().quote(column.name)}" for n, column in columns),
        f"gone AS {GONE}",
        f"place AS {ORDER}",
        f"if(gone OR clears, CAST(array() AS array<string>), array_compact(array({unknown}))) AS {UNKNOWN}",
        f"clears AS {CLEARS}",
        REFUSED,
        ORIGIN,
        f"if({REFUSED} IS NULL, NULL, raw) AS {RAW}",
    )


def _reasons(columns: Sequence[tuple[int, Column]]) -> str:
    """Why an event cannot be taken, of what the steps of `decoded` found of it; NULL for one that can."""
    # A row that only changed has its value elsewhere; one whose key changed has it under a key that is gone.
    bad = " ".join(
        f"WHEN fresh AND p{n} THEN {Spark().string(_unlogged(column))} "
        f"WHEN h{n} AND NOT u{n} AND c{n} IS NULL THEN {Spark().string(_misfit(column))}"
        for n, column in columns
    )
    order = "CASE WHEN place IS NULL THEN 'its `source` does not tell where it stands in the log of its database' END"
    fields = "CASE WHEN unread THEN 'its row is no JSON object' END"
    return f"coalesce(refused, {order}, {fields}, CASE {bad} END)"


def _kind(column: Column, stated: Mapping[str, tuple[Type, connect.Written | None]]) -> str:
    """How a value is written: as the message tells, else as the project does."""
    assumed = connect.assumed(column, stated)
    spark = Spark()
    scale = NOTHING if assumed.scale is None else f"'{assumed.scale}'"
    literal = (
        f"named_struct('type', {spark.string(assumed.type)}, 'name', {spark.string(assumed.name)}, "
        f"'scale', {scale}, 'length', {NOTHING})"
    )
    return f"if(bare, {literal}, kinds[{spark.string(column.name)}])"


def _encoded(n: int, column: Column) -> Encoded:
    # A quote that belongs to a text stands there after a backslash.
    name = json.dumps(column.name, ensure_ascii=False).replace("\\", "\\\\")
    escaped = "".join(f"\\{mark}" if mark in "\\^$.|?*+()[]{}" else mark for mark in name)
    pattern = Spark().string(f"(?<!\\\\){escaped}\\s*:\\s*[-0-9]")
    kind = f"k{n}"
    return Encoded(
        raw=f"r{n}",
        type=f"{kind}.type",
        name=f"{kind}.name",
        scale=f"{kind}.scale",
        length=f"{kind}.length",
        number=f"r{n} RLIKE '^-?[0-9.]+([eE].*)?$' AND row RLIKE {pattern}",
    )


def _absent(column: Column) -> str:
    return f"coalesce(NOT map_contains_key(map, {Spark().string(column.name)}), false)"


def _misfit(column: Column) -> str:
    return f"column {column.name}: its value does not fit {column.type}"


def _unlogged(column: Column) -> str:
    return f"column {column.name}: the database did not log its value when the key changed (REPLICA IDENTITY FULL does)"


def _holders(unavailable: str) -> str:
    """The texts that stand for a value that nobody logged: in a text, in bytes, in arrays of texts and of numbers."""
    raw = unavailable.encode()
    arrays = (json.dumps(each, separators=(",", ":"), ensure_ascii=False) for each in ([unavailable], list(raw)))
    return ", ".join(map(Spark().string, (unavailable, base64.b64encode(raw).decode(), *arrays)))
