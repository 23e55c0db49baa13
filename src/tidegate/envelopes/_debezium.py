"""Parses Debezium events: the row before and after, the operation, and the position in the log.

An event that cannot be read is refused with a reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.core import schema as types
from tidegate.core.log import VALUE
from tidegate.core.schema import Column, Schema
from tidegate.dialects.spark import LONG_STRINGS, Spark, json_text
from tidegate.envelopes import _connect as connect
from tidegate.envelopes import _events as events
from tidegate.envelopes import _origin as origin
from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Neither the row before nor a number is read where nobody asks for it: they are what takes longest.
EVENT = (
    f"after: {events.ROW}, source: {events.texts(origin.FIELDS)}, op: string, "
    f"transaction: {events.texts(['total_order'])}"
)
WHOLE = (
    f"struct<schema: struct<fields: array<struct<field: string, fields: array<{events.FIELD}>>>>, "
    f"payload: struct<{EVENT}>, {EVENT}, {events.CORRUPT}: string>"
)
LONGEST_LOOKED_UP = 20_000_000
"""Characters of the longest string of which `get_json_object` knows."""
OPERATIONS = ("c", "u", "d", "r", "t")

ID, DOCUMENT = "id", "document"
DOCUMENTS = Schema(
    columns=(Column(name=ID, type=types.TEXT, nullable=False), Column(name=DOCUMENT, type=types.JSON)),
)
"""What the documents of a collection of MongoDB become."""
MOVED = (
    "it changes {}, which the stream's key has and the key of its message has not, so no event deletes the old row "
    "(`message.key.columns` can name it)"
)
UNSEEN = (
    "it does not tell whether {} has changed, which the stream's key has: neither the key of its message nor the row "
    "before has it"
)
EMPTIED = (
    "it empties one of the tables that `table: {}` stands for, and nothing tells which rows are of that one "
    "(`truncate: ignore` leaves it out; or give each table a stream of its own)"
)
MONGODB = "coalesce(source.connector = 'mongodb', false)"


def schema_of(values: Sequence[bytes | None], columns: Mapping[str, str], table: Schema | None) -> Schema:
    """The columns that the messages' own schemas tell, else those of the table, else those that are stated.

    Of documents they are `DOCUMENTS`.

    Raises:
        ConfigError: neither tells, or a column is written in a way that keeps no exact value.
    """
    read = [connect.loaded(each) for each in values]
    connector = next((found for each in reversed(read) if (found := origin.connector_of(each))), None)
    if connector == "mongodb":
        if columns:
            raise ConfigError(
                "the documents of MongoDB have no columns: they become `id` and `document`",
                hint="Remove `columns:` from `envelope:`, and take fields out of `document` where it is queried.",
            )
        return DOCUMENTS
    messages = _rows(read)
    if connector == "oracle":
        _refuse_durations(messages, columns)
    return connect.schema_of(messages, columns, table)


def _rows(messages: Sequence[object]) -> list[Sequence[Mapping[str, Any]]]:
    """The fields of the rows of messages that carry a schema."""
    return [fields for each in messages if (fields := connect.fields_of(each, "after", "before"))]


def fields_of(
    values: Sequence[bytes | None], columns: Mapping[str, str], table: Schema | None
) -> tuple[str, ...] | None:
    """The fields that a row may have, see `_connect.fields_known`."""
    return connect.fields_known(_rows([connect.loaded(each) for each in values]), columns, table)


def own(values: Sequence[bytes | None], table: str | None, only: str | None) -> list[bool]:
    """Which of the messages may be events of the table that is named; those that name none may."""
    wanted = only or table
    if wanted is None:
        return [each is not None for each in values]
    names = [origin.table_of(connect.loaded(each)) for each in values]
    return [
        value is not None and (name is None or name == only or (only is None and origin.is_called(wanted, name)))
        for value, name in zip(values, names, strict=True)
    ]


def _refuse_durations(messages: Sequence[Sequence[Mapping[str, Any]]], columns: Mapping[str, str]) -> None:
    fields = [field for each in messages[-1:] for field in each if field.get("field") not in columns]
    column = next((each["field"] for each in fields if connect.short(each.get("name")) == "MicroDuration"), None)
    if column is not None:
        raise ConfigError(
            f"column {column!r} is an interval written as a number, in which a month is 30.4 days",
            hint="Set `interval.handling.mode=string` in the connector, or take the number by "
            f"`envelope: {{columns: {{{column}: bigint}}}}`.",
            column=column,
        )


def table_of(values: Sequence[bytes | None], table: str | None, before: str | None) -> str | None:
    """See `MessageEnvelope.table_of`; `table` is the one that is stated."""
    return origin.one_table(table, before, [origin.table_of(connect.loaded(each)) for each in values])


def json_settings(unavailable: str) -> dict[str, str]:
    """How a connector has to write JSON: with the schema, which says how each value is written."""
    converters = {
        f"{part}.converter{name}": value
        for part in ("key", "value")
        for name, value in (("", "org.apache.kafka.connect.json.JsonConverter"), (".schemas.enable", "true"))
    }
    return {**converters, "unavailable.value.placeholder": unavailable, "skipped.operations": "none"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How messages are read.

    Args:
        table: whose events are taken, the others are left out; None for all.
        only: of which table every event that is taken has to be, or it is refused; None for any.
        ways: how values are written.
        lob_enabled, wall_clock, key, fields: see `debezium.Debezium`.
    """

    table: str | None
    only: str | None
    ways: events.Encodings
    lob_enabled: bool
    wall_clock: bool
    key: tuple[str, ...]
    fields: tuple[str, ...] | None


def events_of(messages: DataFrame, schema: Schema, reading: ReadOptions) -> DataFrame:
    """Messages as events; tombstones and the log's own messages say nothing and are left out."""
    rows, expressions = _taken(messages, reading), _columns(reading)
    return events.decoded(rows, schema, reading.ways, expressions)


def _taken(messages: DataFrame, reading: ReadOptions) -> DataFrame:
    """The parts of every event that is looked at."""
    found = events.parsed(messages.where(f"NOT {_is_logical_message()}"), WHOLE, _parts(), reading.ways.known)
    if reading.table is None:
        return found
    return events.kept(found, f"source IS NULL OR {origin.is_of(reading.table, origin.table(_source))}")


def _columns(reading: ReadOptions) -> events.DecodedEventColumns:
    """What such parts say of their event."""
    known = ", ".join(f"'{name}'" for name in OPERATIONS)
    return events.DecodedEventColumns(
        refused=f"CASE WHEN broken IS NOT NULL THEN broken WHEN unfit THEN {events.NO_OBJECT} "
        "WHEN op IS NULL THEN 'it has no `op`, so it is not a Debezium event' "
        f"WHEN op NOT IN ({known}) THEN 'its `op` is not one that Debezium writes' "
        f"WHEN {_foreign_table(reading)} THEN {Spark().string(origin.foreign(reading.only))} "
        f"WHEN {MONGODB} THEN {_refused_document(reading)} "
        f"WHEN {_empties_one_of_several(reading)} THEN {Spark().string(EMPTIED.format(reading.table))} "
        f"WHEN op <> 't' AND row IS NULL THEN "
        f"if({_written('op')} IS NULL, 'it has no row', 'its row is not a JSON object') "
        f"WHEN op <> 'd' THEN coalesce({events.strange(reading.fields, reading.ways.known)}, "
        f"if(op = 'u', {_key_may_have_changed(reading.key)}, NULL)) END",
        deleted=_is_delete("op"),
        clears="coalesce(op = 't', false)",
        fresh=fresh(_source("connector"), lob_enabled=reading.lob_enabled),
        unlogged=events.unlogged(_source("connector")),
        place=origin.order(_source, "op", "number"),
        # Whether a value is a number is the same in the whole event.
        written=f"coalesce({_written('op')}, CASE WHEN length(text) > {LONGEST_LOOKED_UP} THEN text END)",
    )


def _parts() -> list[str]:
    """See `_events.parsed`."""
    # A message with a schema has the event one level below.
    op, source, after, transaction = (
        f"coalesce(whole.payload.{name}, whole.{name})" for name in ("op", "source", "after", "transaction")
    )
    fields = ", ".join(f"{events.field('whole.schema.fields', part)}.fields" for part in ("after", "before"))
    plain = f"coalesce({after}, from_json({json_text.marked(_written(op))}, '{events.ROW}', map({LONG_STRINGS})))"
    return [
        f"{op} AS op",
        f"{source} AS source",
        f"{transaction}.total_order AS number",
        f"coalesce({fields}) AS fields",
        f"CASE WHEN {source}.connector = 'mongodb' THEN {_document(op)} ELSE {plain} END AS row",
        f"{events.UNFIT} AND ({op} IS NULL OR {after} IS NOT NULL) AS unfit",
    ]


def fresh(connector: str, *, lob_enabled: bool) -> str:
    """Whether a placeholder in an event stands for a value that nobody can know; `connector` is an expression.

    A connector of Oracle that captures no LOB writes the placeholder for each of them, changed or not.
    """
    unknown = "coalesce(op IN ('c', 'r'), false)"
    return unknown if lob_enabled else f"({unknown} OR coalesce(op = 'u' AND {connector} = 'oracle', false))"


def _document(op: str) -> str:
    """The row of a document: its `_id` as the message's key writes it, and all of it."""
    document = f"if({_is_delete(op)}, {events.NOTHING}, {_looked_up('after')})"
    return f"map('{ID}', get_json_object({events.KEY_ROW}, '$.id'), '{DOCUMENT}', {document})"


def _refused_document(reading: ReadOptions) -> str:
    """Why an event of a document cannot be taken; NULL for one that can."""
    document = f"row['{DOCUMENT}']"
    clock = "false" if reading.wall_clock else f"op <> 'r' AND try_cast({_source('ts_ms')} AS bigint) % 1000 <> 0"
    return (
        f"CASE WHEN row['{ID}'] IS NULL THEN 'its message has no key with the `id` of the document' "
        f"WHEN op <> 'd' AND {document} IS NULL THEN 'it has no document; the connector has to write it whole "
        f"(`capture.mode.full.update.type=post_image`)' "
        f"WHEN op <> 'd' AND NOT ({_is_object(document)}) THEN 'its document is not a JSON object' "
        f"WHEN {clock} THEN 'only a server clock orders it, which may go back (`wall_clock: true` in `envelope:` "
        f"trusts it)' END"
    )


def _key_may_have_changed(key: Sequence[str]) -> str:
    """Why an update may leave the row of an old key in the table; NULL where its key is the one before.

    A connector turns a key that changes into two events, as far as it is the key of its messages.
    """
    cases = []
    for name in key:
        unseen = f"NOT ({events.in_key(name)})"
        before, after = _of_row("before", name), _of_row("after", name)
        cases.append(f"WHEN {unseen} AND {before} <> {after} THEN {Spark().string(MOVED.format(name))}")
        # Files have no keys, and a row before only where the database logs one.
        cases.append(
            f"WHEN {events.NAMES_KEY} AND {unseen} AND {before} IS NULL THEN {Spark().string(UNSEEN.format(name))}"
        )
    return f"CASE {' '.join(cases)} END" if cases else events.NOTHING


def _of_row(part: str, name: str) -> str:
    paths = (events.below(f"$.{within}{part}", name) for within in ("", "payload."))
    return f"coalesce({', '.join(f'get_json_object(text, {Spark().string(path)})' for path in paths)})"


def _is_object(text: str) -> str:
    return f"startswith(ltrim({text}), '{{') AND {json_text.one_document(text)}"


def _is_logical_message() -> str:
    """The condition of a message that a program put into the log; the parser is asked where the text may say so.

    It is looked at from its end, where Debezium writes `op`.
    """
    text = f"string({VALUE})"
    last = f"""substring_index({text}, '"op":"', -1)"""
    maybe = f"""startswith({last}, 'm"') OR ({last} = {text} AND contains({text}, '"m"'))"""
    return f"coalesce(CASE WHEN {maybe} THEN {_looked_up('op', text)} = 'm' END, false)"


def _is_delete(op: str) -> str:
    return f"coalesce({op} = 'd', false)"


def _written(op: str) -> str:
    """The row of an event as JSON, which is asked for where the parser of the whole message did not find it."""
    return f"if({_is_delete(op)}, coalesce({_looked_up('before')}, {events.KEY_ROW}), {_looked_up('after')})"


def _looked_up(path: str, text: str = "text") -> str:
    return f"coalesce(get_json_object({text}, '$.{path}'), get_json_object({text}, '$.payload.{path}'))"


def _source(name: str) -> str:
    return _looked_up(f"source.{name}") if name in origin.RARE else f"source.`{name}`"


def _foreign_table(reading: ReadOptions) -> str:
    if reading.only is None:
        return "false"
    return f"source IS NOT NULL AND {origin.table(_source)} <> {Spark().string(reading.only)}"


def _empties_one_of_several(reading: ReadOptions) -> str:
    return "op = 't'" if reading.table is not None and "*" in reading.table else "false"
