"""Decides how what an envelope found in each message becomes an event: its columns, or the reason why it is refused.

Called by the envelopes of Debezium. Must never let a value that does not fit become NULL, nor name it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.core.log import CLEARS, KEY, ORIGIN, RAW, REFUSED, UNKNOWN, VALUE
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
ROW = "map<string, string>"
"""A row: its values by their names as JSON has them, strings without their quotes."""

OPTIONS = f"map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '{CORRUPT}')"
NO_OBJECT = "'it is no whole JSON object'"
NOTHING = "CAST(NULL AS string)"
KEY_TEXT = f"if(is_valid_utf8(string({KEY})), string({KEY}), NULL)"
KEY_ROW = f"coalesce(get_json_object({KEY_TEXT}, '$.payload'), {KEY_TEXT})"
"""The JSON of a message's key, without the schema that it may carry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What an envelope's rows say of their events, each an expression.

    Args:
        refused: why the event cannot be taken; NULL for one that can.
        gone, clears: whether it deletes its row, or all rows.
        fresh: whether nothing is known of the row but this event.
        place: its order.
        written: its row as JSON, which few values have to be looked up in.
    """

    refused: str
    gone: str
    clears: str
    fresh: str
    place: str
    written: str


def texts(names: Iterable[str]) -> str:
    """The type of a struct of texts of these names."""
    return f"struct<{', '.join(f'`{name}`: string' for name in names)}>"


def parsed(messages: DataFrame, shape: str, parts: Callable[[str, str], Iterable[str]]) -> DataFrame:
    """Messages whose values are JSON; those without one are left out, they say nothing.

    Args:
        messages: `KEY`, `VALUE`, `ORIGIN`; also `problem` and `raw` where something else made JSON of them.
        parts: the expressions of what is wanted of a message, by that of the whole in that shape and that of whether
            anything in it has not the shape, as all of what is no JSON. Spark reads the message once for all of them.

    Rows: `KEY`, `VALUE`, `ORIGIN`, `text`, `raw` (the text, base64 where it is none), `broken`, why it cannot be read,
    and the parts.
    """
    made = "problem" in messages.columns
    present = messages.where(f"{VALUE} IS NOT NULL" + (" OR problem IS NOT NULL" if made else ""))
    text = f"if(is_valid_utf8(string({VALUE})), string({VALUE}), NULL)"
    more = ("problem", "raw") if made else (f"{NOTHING} AS problem", f"{NOTHING} AS raw")
    found = present.selectExpr(KEY, VALUE, ORIGIN, f"{text} AS text", *more)
    parsed = f"from_json(text, '{shape}', {OPTIONS})"
    # The parser ends with the first value, whatever follows it, and takes the first of an array for it.
    blank = r"' \n\r\t'"
    begins = f"startswith(text, '{{') OR startswith(ltrim({blank}, text), '{{')"
    whole = f"({begins}) AND (endswith(text, '}}') OR endswith(rtrim({blank}, text), '}}'))"
    broken = (
        "CASE WHEN problem IS NOT NULL THEN problem WHEN text IS NULL THEN 'it is no text in UTF-8' "
        f"WHEN {parsed} IS NULL OR NOT ({whole}) THEN {NO_OBJECT} END"
    )
    unfit = f"{parsed}.{CORRUPT} IS NOT NULL"
    raw = f"coalesce(raw, text, base64({VALUE})) AS raw"
    return found.selectExpr(KEY, VALUE, ORIGIN, "text", raw, f"{broken} AS broken", *parts(parsed, unfit))


def decoded(
    rows: DataFrame,
    schema: Schema,
    stated: Mapping[str, tuple[Type, connect.Written | None]],
    unavailable: str,
    told: Told,
) -> DataFrame:
    """Events of what was found in each message.

    In few projections, because Spark makes a row of each.

    Args:
        rows: `KEY`, `ORIGIN`, `text`, `raw`, `op`, `row` (a `ROW`), `fields` (of `FIELD`; NULL where the message tells
            nothing of how its values are written), and what the expressions look at.
        unavailable: the text that stands for a value that nobody logged.

    Rows: see `core.log.Logged`.
    """
    columns = list(enumerate(schema))
    raws = [f"row[{Spark().string(column.name)}]" for column in schema]
    held = [f"coalesce({raw} IN ({_holders(unavailable)}), false)" for raw in raws]
    # A row that only changed has its value elsewhere; one whose key changed has it under a key that is gone.
    unlogged = " ".join(f"WHEN {held[n]} THEN {Spark().string(_unlogged(column))}" for n, column in columns)
    absent = [f"{raw} IS NULL AND {_absent(column)}" for raw, column in zip(raws, schema, strict=True)]
    unknown = [f"{held[n]} OR {absent[n]}" for n, _ in columns]
    listed = ", ".join(f"if({unknown[n]}, {Spark().string(column.name)}, NULL)" for n, column in columns)
    step = rows.selectExpr(
        *(KEY, ORIGIN, "text", "raw", "op"),
        f"coalesce({told.refused}, if({told.fresh}, CASE {unlogged} END, NULL)) AS refused",
        f"{told.gone} AS gone",
        f"{told.clears} AS clears",
        f"{told.place} AS place",
        f"if(NOT ({told.gone} OR {told.clears}) AND ({' OR '.join(unknown)}), "
        f"array_compact(array({listed})), CAST(array() AS array<string>)) AS {UNKNOWN}",
        "fields IS NULL AS bare",
        *(f"if({held[n]}, NULL, {raws[n]}) AS r{n}" for n, _ in columns),
        *(f"{field('fields', column.name)} AS k{n}" for n, column in columns),
    )
    step = step.selectExpr(
        *(ORIGIN, "raw", "refused", "gone", "clears", "place", UNKNOWN),
        *(f"r{n} IS NOT NULL AS h{n}" for n, _ in columns),
        *(f"{value(column, _encoded(n, column, stated, told))} AS c{n}" for n, column in columns),
    )
    step = step.selectExpr("*", f"{_reasons(columns)} AS {REFUSED}")
    return step.selectExpr(
        *(f"c{n} AS {Spark().quote(column.name)}" for n, column in columns),
        f"gone AS {GONE}",
        f"place AS {ORDER}",
        UNKNOWN,
        f"clears AS {CLEARS}",
        REFUSED,
        ORIGIN,
        f"if({REFUSED} IS NULL, NULL, raw) AS {RAW}",
    )


def _reasons(columns: Sequence[tuple[int, Column]]) -> str:
    """Why an event cannot be taken, of what the steps of `decoded` found of it; NULL for one that can."""
    bad = " ".join(f"WHEN h{n} AND c{n} IS NULL THEN {Spark().string(_misfit(column))}" for n, column in columns)
    order = "CASE WHEN place IS NULL THEN 'its `source` does not tell where it stands in the log of its database' END"
    return f"coalesce(refused, {order}, CASE {bad} END)"


def field(fields: str, name: str) -> str:
    """The one of that name among fields of `FIELD`; NULL for none."""
    return f"get({fields}, CAST(array_position({fields}.field, {Spark().string(name)}) AS int) - 1)"


def _encoded(n: int, column: Column, stated: Mapping[str, tuple[Type, connect.Written | None]], told: Told) -> Encoded:
    """A value and how it is written: as the message tells, else as the project does."""
    assumed = connect.assumed(column, stated)
    scale = NOTHING if assumed.scale is None else f"'{assumed.scale}'"
    # A quote that belongs to a text stands there after a backslash.
    name = json.dumps(column.name, ensure_ascii=False).replace("\\", "\\\\")
    escaped = "".join(f"\\{mark}" if mark in "\\^$.|?*+()[]{}" else mark for mark in name)
    pattern = Spark().string(f"(?<!\\\\){escaped}\\s*:\\s*[-0-9]")
    known = " OR ".join(f"startswith(k{n}.name, '{prefix}')" for prefix in connect.PREFIXES)
    return Encoded(
        raw=f"r{n}",
        type=f"if(bare, {Spark().string(assumed.type)}, k{n}.type)",
        name=f"if(bare, {Spark().string(assumed.name)}, if({known}, substring_index(k{n}.name, '.', -1), ''))",
        scale=f"if(bare, {scale}, k{n}.parameters['scale'])",
        length=f"k{n}.parameters['length']",
        number=f"r{n} RLIKE '^-?[0-9.]+([eE].*)?$' AND {told.written} RLIKE {pattern}",
    )


def _absent(column: Column) -> str:
    return f"coalesce(NOT map_contains_key(row, {Spark().string(column.name)}), false)"


def _misfit(column: Column) -> str:
    return f"column {column.name}: its value does not fit {column.type}"


def _unlogged(column: Column) -> str:
    return f"column {column.name}: the database did not log its value when the key changed (REPLICA IDENTITY FULL does)"


def _holders(unavailable: str) -> str:
    """The texts that stand for a value that nobody logged: in a text, in bytes, in arrays of texts and of numbers."""
    raw = unavailable.encode()
    arrays = (json.dumps(each, separators=(",", ":"), ensure_ascii=False) for each in ([unavailable], list(raw)))
    return ", ".join(map(Spark().string, (unavailable, base64.b64encode(raw).decode(), *arrays)))
