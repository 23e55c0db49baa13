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
        key: the stream's.
        known: schemas that messages are known to carry, so that they are read faster.
    """

    kind: ClassVar[str] = "flat"

    table: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    unavailable: str = "__debezium_unavailable_value"
    lob_enabled: bool = False
    prefix: str = "__"
    connector: str | None = None
    key: tuple[str, ...] = field(default=(), metadata={"given": True})
    known: tuple[schemas.KnownSchema, ...] = field(default=(), metadata={"given": True}, repr=False)

    def __post_init__(self) -> None:
        connect.stated(self.columns)

    def schema(self, messages: Sequence[Message], table: Schema | None = None) -> Schema:
        """The columns that the messages' own schemas tell, else those of the table, else those that are stated.

        Raises:
            ConfigError: neither tells; the hint says what to write.
        """
        found = (connect.fields_of(connect.loaded(each.value)) for each in messages)
        messages_fields = [[one for one in fields if not self._added(one.get("field"))] for fields in found if fields]
        return connect.schema_of(messages_fields, self.columns, table)

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
            rows = events.kept(rows, f"row IS NULL OR {origin.is_of(self.table, origin.table(self._source))}")
        known = ", ".join(f"'{name}'" for name in OPERATIONS)
        saying = events.DecodedEventColumns(
            refused=f"CASE WHEN broken IS NOT NULL THEN broken WHEN unfit THEN {events.NO_OBJECT} "
            "WHEN text IS NULL THEN 'it has no row' WHEN row IS NULL THEN 'its row is not a JSON object' "
            f"WHEN op NOT IN ({known}) THEN 'its operation is not one that Debezium writes' "
            f"WHEN {self._source('connector')} = 'mongodb' THEN 'it is a flattened document of MongoDB; read whole "
            f"ones with envelope debezium' "
            f"WHEN op = 'u' THEN {self._key_may_have_changed()} END",
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
        return transactions.takes(self.table, None, table)

    def _member(self, message: object) -> Member | None:
        row = message.get("payload", message) if isinstance(message, dict) else None
        if not isinstance(row, dict):
            return None

        def text_of(name: str) -> Any:
            names = (f"{self.prefix}{each}{name}" for each in ("transaction_", "", "source_"))
            return next((row[each] for each in names if row.get(each) is not None), None)

        table = ".".join(each for name in ("db", "schema", "table") if isinstance(each := text_of(name), str))
        if text_of("op") == "r" or (self.table is not None and table and not self.takes(table)):
            return None
        name = row.get(f"{self.prefix}transaction_id")
        return Member("") if name is None else transactions.member(name, text_of("total_order"))

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
