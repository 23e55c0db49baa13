"""Decides what an event of Debezium says: the row before and after, the operation, where it stands in its log.

Called by the envelopes that hold whole events, whatever they are written in. Must never turn what it cannot read into
NULL: such an event is refused, with a reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tidegate.core.log import KEY, ORIGIN, PLACE
from tidegate.core.schema import Schema
from tidegate.envelopes import _connect as connect
from tidegate.envelopes import _events as events
from tidegate.envelopes import _origin as origin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EVENT = "before: string, after: string, source: string, op: string, transaction: string"
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


def events_of(
    messages: DataFrame, schema: Schema, *, table: str | None, columns: Mapping[str, str], unavailable: str
) -> DataFrame:
    """Messages as events; tombstones and the log's own messages say nothing and are left out."""
    return events.decoded(_taken(messages, table), schema, connect.stated(columns), unavailable)


def _taken(messages: DataFrame, table: str | None) -> DataFrame:
    """What every event is told by, see `_events.decoded`."""
    parsed = events.parsed(messages, WHOLE)

    def part(name: str) -> str:
        return f"coalesce(parsed.payload.{name}, parsed.{name}) AS {name}"

    inside = "filter(parsed.schema.fields, f -> f.field IN ('after', 'before'))"
    names = ("before", "after", "op", "transaction")
    told = parsed.selectExpr(
        KEY,
        PLACE,
        ORIGIN,
        "text",
        "raw",
        "broken",
        *(part(name) for name in names),
        f"from_json(coalesce(parsed.payload.source, parsed.source), '{events.texts(origin.FIELDS)}') AS source",
        f"get({inside}, 0).fields AS fields",
    )
    if table is not None:
        mine = origin.is_of(table, origin.table("source"))
        told = told.where(f"source IS NULL OR {mine}")
    known = ", ".join(f"'{name}'" for name in OPERATIONS)
    order = origin.order("source", "op", "get_json_object(transaction, '$.total_order')")
    gone = "op = 'd'"
    row = f"if({gone}, coalesce(before, {events.KEY_ROW}), after)"
    return told.where("op IS NULL OR op <> 'm'").selectExpr(
        KEY,
        ORIGIN,
        "raw",
        f"CASE WHEN broken IS NOT NULL THEN broken "
        "WHEN op IS NULL THEN 'it has no `op`, so it is no event of Debezium' "
        f"WHEN op NOT IN ({known}) THEN 'its `op` is none that Debezium is known to write' "
        f"WHEN op <> 't' AND {row} IS NULL THEN 'it has no row' END AS refused",
        f"coalesce({gone}, false) AS gone",
        "coalesce(op = 't', false) AS clears",
        f"{order} AS place",
        f"{row} AS row",
        f"{events.kinds('fields')} AS kinds",
        "fields IS NULL AS bare",
    )
