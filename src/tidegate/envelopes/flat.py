"""The envelope `flat`: Debezium events flattened by `ExtractNewRecordState`.

Never orders events by arrival time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from tidegate.core.log import KEY, ORIGIN, Message
from tidegate.core.ports.envelope import MessageEnvelope, TransactionMarkers
from tidegate.core.schema import Schema
from tidegate.core.transactions import Ending, Member
from tidegate.dialects.spark import LONG_STRINGS, Spark
from tidegate.envelopes import _connect as connect
from tidegate.envelopes import _debezium as debezium
from tidegate.envelopes import _events as events
from tidegate.envelopes import _origin as origin
from tidegate.envelopes import _schemas as schemas
from tidegate.envelopes import _transactions as transactions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# A row may have columns of these names: whether they hold it is seen by what is in them.
WHOLE = f"struct<schema: string, payload: string, {events.CORRUPT}: string>"
PARTS = (
    f"from_json(whole.schema, 'struct<fields: array<{events.FIELD}>>').fields AS fields",
    "whole.payload AS payload",
    f"{events.UNFIT} AS unfit",
)
OPERATIONS = ("c", "u", "d", "r")
UNSEEN = (
    "it does not tell whether {} has changed, which the stream's key has and the key of its message has not; envelope "
    "debezium may, by the row before"
)


UNNAMED = (
    "it does not name its table as fully as `table: {}` does; the transform has to add the fields "
    "(`add.fields=table,source.schema,source.db,…`)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flat(MessageEnvelope):
    """Flattened events in JSON, with or without a schema in each message, and fields added to them.

    Debezium's transform must add the fields that order the events: `add.fields=op,table,source.connector,…` and
    `delete.tombstone.handling.mode=rewrite`.

    Args:
        table: take only the events of this table; unless given, all events must be of one table.
        columns: types by name where the messages carry no schema: `{amount: "decimal(10,2) as bytes"}`.
        unavailable: the placeholder of a value that the database did not log.
        lob_enabled: the connector of Oracle captures LOBs (`lob.enabled=true`), so that its placeholder says unchanged.
        prefix: the prefix of the added fields (`add.fields.prefix`); no column of the table may begin with it.
        connector: the connector that wrote the events, if no field names it: `postgresql`, `mysql`, …
        only: of which table every event has to be that names its table.
        key: the stream's.
        fields: those that rows may have beside the added ones; None for any.
        known: schemas that messages are known to carry, so that they are read faster.
    """

    kind: ClassVar[str] = "flat"

    table: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    unavailable: str = "__debezium_unavailable_value"
    lob_enabled: bool = False
    prefix: str = "__"
    connector: str | None = None
    only: str | None = field(default=None, metadata={"given": True})
    key: tuple[str, ...] = field(default=(), metadata={"given": True})
    fields: tuple[str, ...] | None = field(default=None, metadata={"given": True}, repr=False)
    known: tuple[schemas.KnownSchema, ...] = field(default=(), metadata={"given": True}, repr=False)

    def __post_init__(self) -> None:
        connect.stated(self.columns)

    def schema(self, messages: Sequence[Message], table: Schema | None = None) -> Schema:
        """The columns that the messages' own schemas tell, else those of the table, else those that are stated.

        Raises:
            ConfigError: neither tells; the hint says what to write.
        """
        return connect.schema_of(self._rows(messages), self.columns, table)

    def connector_settings(self, order: Sequence[str]) -> Mapping[str, str]:
        """See `MessageEnvelope`; the transform drops the event that empties a table."""
        added = ["op", "table", "source.connector", *order, "transaction.id", "transaction.total_order"]
        unwrap = {
            "type": "io.debezium.transforms.ExtractNewRecordState",
            "delete.tombstone.handling.mode": "rewrite",
            "add.fields": ",".join(added),
            "add.fields.prefix": self.prefix,
        }
        transforms = {f"transforms.unwrap.{name}": value for name, value in unwrap.items()}
        return {
            **debezium.json_settings(self.unavailable),
            "skipped.operations": "t",
            "transforms": "unwrap",
            **transforms,
        }

    def keyed_by(self, key: Sequence[str]) -> Flat:
        """See `Envelope`."""
        return replace(self, key=tuple(key))

    def table_of(self, messages: Sequence[Message], before: str | None) -> str | None:
        """See `MessageEnvelope`."""
        return origin.one_table(
            self.table, before, [self._named(_row(connect.loaded(each.value))) for each in messages]
        )

    def of_table(self, name: str | None) -> Flat:
        """See `MessageEnvelope`."""
        return replace(self, only=origin.fitting(name, self.table))

    def own(self, messages: Sequence[Message]) -> list[bool]:
        """See `MessageEnvelope`."""
        names = (self._named(_row(connect.loaded(each.value))) for each in messages)
        return [each.value is not None and self._may_be(name) for each, name in zip(messages, names, strict=True)]

    def of_columns(self, messages: Sequence[Message], table: Schema | None) -> Flat:
        """See `MessageEnvelope`."""
        return replace(self, fields=connect.fields_known(self._rows(messages), self.columns, table))

    def primed_with(self, messages: Sequence[Message]) -> Flat:
        """See `MessageEnvelope`."""
        return replace(self, known=schemas.known(each.value for each in messages))

    def events(self, messages: DataFrame, schema: Schema) -> DataFrame:
        """Messages as events; tombstones say nothing and are left out."""
        parsed = events.parsed(messages, WHOLE, PARTS, self.known)
        text = "if(fields IS NULL, text, payload) AS text"
        rows = parsed.selectExpr(KEY, ORIGIN, "known", "raw", "broken", "unfit", text, "fields")
        rows = rows.selectExpr("*", f"from_json(text, '{events.ROW}', map({LONG_STRINGS})) AS row")
        rows = rows.selectExpr("*", f"{self._operation()} AS op")
        if self.table is not None:
            rows = events.kept(rows, f"row IS NULL OR {self._is_own()} OR NOT ({self._is_named(self.table)})")
        known = ", ".join(f"'{name}'" for name in OPERATIONS)
        saying = events.DecodedEventColumns(
            refused=f"CASE WHEN broken IS NOT NULL THEN broken WHEN unfit THEN {events.NO_OBJECT} "
            "WHEN text IS NULL THEN 'it has no row' WHEN row IS NULL THEN 'its row is not a JSON object' "
            f"WHEN op NOT IN ({known}) THEN 'its operation is not one that Debezium writes' {self._foreign()} "
            f"WHEN {self._source('connector')} = 'mongodb' THEN 'it is a flattened document of MongoDB; read whole "
            f"ones with envelope debezium' "
            f"WHEN op <> 'd' THEN coalesce({events.strange(self.fields, self.known, self.prefix)}, "
            f"if(op = 'u', {self._key_may_have_changed()}, NULL)) END",
            deleted="coalesce(op = 'd', false)",
            clears="false",
            fresh=debezium.fresh(self._source("connector"), lob_enabled=self.lob_enabled),
            unlogged=events.unlogged(self._source("connector")),
            place=origin.order(self._source, "op", self._field("total_order")),
            written="text",
        )
        ways = events.Encodings(stated=connect.stated(self.columns), unavailable=self.unavailable, known=self.known)
        return events.decoded(rows, schema, ways, saying)

    @property
    def transactions(self) -> TransactionMarkers:
        """Those that Debezium adds."""
        return self

    def members(self, messages: Sequence[Message]) -> list[Member | None]:
        """See `TransactionMarkers`."""
        return [self._member(connect.loaded(each.value)) for each in messages]

    def endings(self, messages: Sequence[Message]) -> list[Ending | None]:
        """See `TransactionMarkers`."""
        return [transactions.ending_of(each.value) for each in messages]

    def takes(self, table: str) -> bool:
        """See `TransactionMarkers`."""
        return transactions.takes(self.table, self.only, table)

    def _member(self, message: object) -> Member | None:
        row = _row(message)
        if row is None:
            return None
        table = self._named(row)
        if self._added_value(row, "op") == "r" or (self.table is not None and table and not self.takes(table)):
            return None
        name = row.get(f"{self.prefix}transaction_id")
        return Member("") if name is None else transactions.member(name, self._added_value(row, "total_order"))

    def _added_value(self, row: Mapping[str, Any], name: str) -> Any:
        """What an added field says."""
        names = (f"{self.prefix}{each}{name}" for each in ("transaction_", "", "source_"))
        return next((row[each] for each in names if row.get(each) is not None), None)

    def _named(self, row: Mapping[str, Any] | None) -> str:
        """The table of a row, as far as added fields name it."""
        parts = (self._added_value(row or {}, name) for name in ("db", "schema", "table"))
        return ".".join(each for each in parts if isinstance(each, str))

    def _may_be(self, name: str) -> bool:
        """Whether a row of a table of that name may be one that is read."""
        if self.table is not None and not (origin.is_called(self.table, name) or self.table.endswith(f".{name}")):
            return not name
        return not self.only or f".{self.only}".endswith(f".{name}") or f".{name}".endswith(f".{self.only}") or not name

    def _rows(self, messages: Sequence[Message]) -> list[Sequence[Mapping[str, Any]]]:
        """The fields of the rows of messages that carry a schema, without the added ones."""
        found = (connect.fields_of(connect.loaded(each.value)) for each in messages)
        return [[one for one in fields if not self._added(one.get("field"))] for fields in found if fields]

    def _is_own(self) -> str:
        return origin.is_of(self.table or "*", origin.table(self._source))

    def _is_named(self, table: str) -> str:
        """The condition that an event names its table as fully as that name does; some databases have no schemas."""
        needed = [f"{self._source('table')} IS NOT NULL"]
        if "." in table:
            no_schemas = f"{self._source('connector')} IN ('mysql', 'mariadb') AND {self._source('db')} IS NOT NULL"
            needed.append(f"({self._source('schema')} IS NOT NULL OR {no_schemas})")
        if table.count(".") > 1:
            needed.append(f"{self._source('db')} IS NOT NULL")
        return f"coalesce({' AND '.join(needed)}, false)"

    def _foreign(self) -> str:
        """The cases of events that are of another table, or that do not say of which."""
        unnamed = f"WHEN NOT {self._is_own()} THEN {Spark().string(UNNAMED.format(self.table))}" if self.table else ""
        if self.only is None:
            return unnamed
        name, only = origin.table(self._source), Spark().string(self.only)
        same = (
            f"{name} IN ('', {only}) OR endswith({name}, concat('.', {only})) OR endswith({only}, concat('.', {name}))"
        )
        return f"{unnamed} WHEN NOT ({same}) THEN {Spark().string(origin.foreign(self.only))}"

    def _key_may_have_changed(self) -> str:
        """Why an update may leave the row of an old key in the table; NULL where messages have no keys, as in files."""
        missing = (
            f"WHEN {events.NAMES_KEY} AND NOT ({events.in_key(name)}) THEN {Spark().string(UNSEEN.format(name))}"
            for name in self.key
        )
        return f"CASE {' '.join(missing)} END" if self.key else events.NOTHING

    def _added(self, name: object) -> bool:
        return isinstance(name, str) and name.startswith(self.prefix)

    def _field(self, name: str) -> str:
        """A field that was added, under its own name or behind that of the struct it was taken from."""
        names = (f"{self.prefix}{name}", f"{self.prefix}source_{name}", f"{self.prefix}transaction_{name}")
        return f"coalesce({', '.join(f'row[{Spark().string(each)}]' for each in names)})"

    def _source(self, name: str) -> str:
        if name == "connector" and self.connector is not None:
            return f"coalesce({self._field(name)}, {Spark().string(self.connector)})"
        return self._field(name)

    def _operation(self) -> str:
        deleted = f"row[{Spark().string(f'{self.prefix}deleted')}]"
        return f"if({deleted} = 'true', 'd', coalesce({self._field('op')}, 'u'))"


def _row(message: object) -> Mapping[str, Any] | None:
    """The row of a message as JSON gives it; None where it has none."""
    row = message.get("payload", message) if isinstance(message, dict) else None
    return row if isinstance(row, dict) else None
