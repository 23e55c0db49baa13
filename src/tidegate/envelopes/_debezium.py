"""Decides what an event of Debezium says: the row before and after, the operation, where it stands in its log.

Called by the envelopes that hold whole events, whatever they are written in. Must never turn what it cannot read into
NULL: such an event is refused, with a reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.core.log import KEY, ORIGIN, PLACE
from tidegate.core.schema import Schema
from tidegate.dialects.spark import Spark
from tidegate.envelopes import _connect as connect
from tidegate.envelopes import _events as events
from tidegate.envelopes import _origin as origin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EVENT = (
    f"before: string, after: string, source: {events.texts(origin.FIELDS)}, op: string, "
    f"transaction: {events.texts(['total_order'])}"
)
WHOLE = (
    f"struct<schema: struct<fields: array<struct<field: string, fields: array<{events.FIELD}>>>>, "
    f"payload: struct<{EVENT}>, {EVENT}, {events.CORRUPT}: string>"
)
OPERATIONS = ("c", "u", "d", "r", "t")


def schema_of(values: Sequence[bytes | None], columns: Mapping[str, str], table: Schema | None) -> Schema:
    """The columns that the messages' own schemas tell, else those of the table, else those that are stated.

    Raises:
        ConfigError: neither tells; the hint says what to write.
    """
    told = [fields for each in values if (fields := connect.fields_of(connect.loaded(each), "after", "before"))]
    return connect.schema_of(told, columns, table)


def table_of(values: Sequence[bytes | None]) -> str | None:
    """The table of the newest message that tells one."""
    return next((found for each in reversed(values) if (found := origin.table_of(connect.loaded(each)))), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How messages are read.

    Args:
        table: whose events are taken, the others are left out; None for all.
        only: of which table every event has to be, or it is refused; None where nobody knows.
        columns, unavailable: as of envelope `debezium`.
    """

    table: str | None
    only: str | None
    columns: Mapping[str, str]
    unavailable: str


def events_of(messages: DataFrame, schema: Schema, reading: Reading) -> DataFrame:
    """Messages as events; tombstones and the log's own messages say nothing and are left out."""
    return events.decoded(_taken(messages, reading), schema, connect.stated(reading.columns), reading.unavailable)


def _taken(messages: DataFrame, reading: Reading) -> DataFrame:
    """What every event is told by, see `_events.decoded`."""
    parsed = events.parsed(messages, WHOLE)

    def part(name: str) -> str:
        return f"coalesce(parsed.payload.{name}, parsed.{name}) AS {name}"

    inside = "filter(parsed.schema.fields, f -> f.field IN ('after', 'before'))"
    names = ("before", "after", "op", "transaction", "source")
    told = parsed.selectExpr(
        KEY,
        PLACE,
        ORIGIN,
        "text",
        "raw",
        "broken",
        *(part(name) for name in names),
        f"get({inside}, 0).fields AS fields",
    )
    # Spark asks for what is left out before all else, and parses the JSON once more for that, if the text may say so.
    told = told.where("NOT coalesce(CASE WHEN contains(text, '\"m\"') THEN op = 'm' END, false)")
    if reading.table is not None:
        mine = origin.is_of(reading.table, origin.table("source"))
        told = told.where(f"source IS NULL OR {mine}")
    known = ", ".join(f"'{name}'" for name in OPERATIONS)
    order = origin.order("source", "op", "transaction.total_order")
    gone = "op = 'd'"
    row = f"if({gone}, coalesce(before, {events.KEY_ROW}), after)"
    return told.selectExpr(
        KEY,
        ORIGIN,
        "raw",
        f"CASE WHEN broken IS NOT NULL THEN broken "
        "WHEN op IS NULL THEN 'it has no `op`, so it is no event of Debezium' "
        f"WHEN op NOT IN ({known}) THEN 'its `op` is none that Debezium is known to write' "
        f"WHEN {_strange(reading)} THEN 'it is of another table than the newest event; name one by `table:`' "
        f"WHEN op <> 't' AND {row} IS NULL THEN 'it has no row' END AS refused",
        f"coalesce({gone}, false) AS gone",
        "coalesce(op = 't', false) AS clears",
        "coalesce(op IN ('c', 'r'), false) AS fresh",
        f"{order} AS place",
        f"{row} AS row",
        f"{events.kinds('fields')} AS kinds",
        "fields IS NULL AS bare",
    )


def _strange(reading: Reading) -> str:
    if reading.table is not None or reading.only is None:
        return "false"
    return f"source IS NOT NULL AND {origin.table('source')} <> {Spark().string(reading.only)}"
