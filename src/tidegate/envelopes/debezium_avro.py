"""The envelope `debezium_avro`: Debezium events in Avro with a schema registry.

Workers never query the registry. An event with an unknown schema is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import urlsplit, urlunsplit

from tidegate.core.log import KEY, ORIGIN, PLACE, VALUE, Message
from tidegate.core.ports.envelope import MessageEnvelope, TransactionMarkers
from tidegate.core.schema import Schema
from tidegate.core.transactions import Ending, Member
from tidegate.envelopes import _avro as avro
from tidegate.envelopes import _connect as connect
from tidegate.envelopes import _debezium as debezium
from tidegate.envelopes import _origin as origin
from tidegate.envelopes import _schemas as schemas
from tidegate.envelopes import _transactions as transactions
from tidegate.envelopes._events import Encodings
from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS = f"{KEY} binary, {VALUE} binary, {PLACE} string, {ORIGIN} string, problem string, raw string"


@dataclass(frozen=True, slots=True, kw_only=True)
class DebeziumAvro(MessageEnvelope):
    """Debezium's events in Avro, in the wire format of Confluent's schema registry.

    Args:
        table: take only the events of this table, `*` for any text; unless given, all events must be of one table.
        columns: exact types by name, which win over those of the schema: `{amount: "decimal(10,2)"}`.
        unavailable: the placeholder of a value that the database did not log (`unavailable.value.placeholder`).
        lob_enabled: the connector of Oracle captures LOBs (`lob.enabled=true`), so that its placeholder says unchanged.
        wall_clock: order MongoDB's events by the clock of its servers, where they say no other time.
        only: of which table every event has to be.
        key: the stream's.
        fields: those that rows may have; None for any.
        registry: the URL of the registry; that of the connection unless given.
    """

    kind: ClassVar[str] = "debezium_avro"
    needs_registry: ClassVar[bool] = True

    table: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    unavailable: str = "__debezium_unavailable_value"
    lob_enabled: bool = False
    wall_clock: bool = False
    only: str | None = field(default=None, metadata={"given": True})
    key: tuple[str, ...] = field(default=(), metadata={"given": True})
    fields: tuple[str, ...] | None = field(default=None, metadata={"given": True}, repr=False)
    registry: str | None = field(default=None, metadata={"given": True}, repr=False)

    def __post_init__(self) -> None:
        connect.stated(self.columns)

    def with_registry(self, url: str | None) -> DebeziumAvro:
        """The same with the registry of its connection. Raises ConfigError where there is none."""
        if not url:
            raise ConfigError(
                "events in Avro need a schema registry",
                hint='Set `connections: {events: {kafka: "host:9092", registry: "http://host:8081"}}`.',
            )
        return replace(self, registry=url)

    def connector_settings(self, order: Sequence[str]) -> Mapping[str, str]:  # noqa: ARG002 - all are there
        """See `MessageEnvelope`; a login of the registry is a reference."""
        url = urlsplit(self.registry or "")
        converter = {"": "io.confluent.connect.avro.AvroConverter"}
        converter[".schema.registry.url"] = urlunsplit(url._replace(netloc=url.netloc.rpartition("@")[2]))
        if url.username:
            converter[".basic.auth.credentials.source"] = "USER_INFO"
            converter[".basic.auth.user.info"] = "${env:SCHEMA_REGISTRY_LOGIN}"
        return {
            **{f"{part}.converter{name}": value for part in ("key", "value") for name, value in converter.items()},
            # Only names of schemas; a column whose name Avro cannot hold is an error of the converter.
            "schema.name.adjustment.mode": "avro",
            "unavailable.value.placeholder": self.unavailable,
            "skipped.operations": "none",
        }

    def schema(self, messages: Sequence[Message], table: Schema | None = None) -> Schema:
        """The columns that the messages' schemas tell."""
        return debezium.schema_of(self._as_json(messages), self.columns, table)

    def keyed_by(self, key: Sequence[str]) -> DebeziumAvro:
        """See `Envelope`."""
        return replace(self, key=tuple(key))

    def table_of(self, messages: Sequence[Message], before: str | None) -> str | None:
        """See `MessageEnvelope`."""
        return debezium.table_of(self._as_json(messages), self.table, before)

    def of_table(self, name: str | None) -> DebeziumAvro:
        """See `MessageEnvelope`."""
        return replace(self, only=origin.fitting(name, self.table))

    def own(self, messages: Sequence[Message]) -> list[bool]:
        """See `MessageEnvelope`; a message that cannot be read tells nothing."""
        return debezium.own(self._read(messages), self.table, self.only)

    def of_columns(self, messages: Sequence[Message], table: Schema | None) -> DebeziumAvro:
        """See `MessageEnvelope`."""
        return replace(self, fields=debezium.fields_of(self._as_json(messages), self.columns, table))

    def events(self, messages: DataFrame, schema: Schema) -> DataFrame:
        """Messages as events; the schemas that they name are asked for once, before."""
        present = messages.where(f"{VALUE} IS NOT NULL")
        numbers = [
            int(row[0])
            for part in (KEY, VALUE)
            for row in present.where(f"length({part}) >= 5 AND hex(substring({part}, 1, 1)) = '00'")
            .selectExpr(f"conv(hex(substring({part}, 2, 4)), 16, 10) AS number")
            .distinct()
            .collect()
        ]
        prepared = self._prepared(numbers)
        read = avro.reader(prepared)
        known = schemas.known(map(avro.prefix, prepared.values()), "after", "before", most=len(prepared))
        decoded = present.select(KEY, VALUE, PLACE, ORIGIN).mapInArrow(
            avro.batches(read, (KEY, VALUE, PLACE, ORIGIN)), ROWS
        )
        ways = Encodings(stated=connect.stated(self.columns), unavailable=self.unavailable, known=known)
        reading = debezium.ReadOptions(
            table=self.table,
            only=self.only,
            ways=ways,
            lob_enabled=self.lob_enabled,
            wall_clock=self.wall_clock,
            key=self.key,
            fields=self.fields,
        )
        return debezium.events_of(decoded, schema, reading)

    @property
    def transactions(self) -> TransactionMarkers:
        """Those that Debezium adds."""
        return self

    def members(self, messages: Sequence[Message]) -> list[Member | None]:
        """See `TransactionMarkers`."""
        wanted = self.takes if self.table is not None else None
        return [transactions.member_of(each, wanted) for each in self._read(messages)]

    def endings(self, messages: Sequence[Message]) -> list[Ending | None]:
        """See `TransactionMarkers`."""
        return [transactions.ending_of(each) for each in self._read(messages)]

    def takes(self, table: str) -> bool:
        """See `TransactionMarkers`."""
        return transactions.takes(self.table, self.only, table)

    def _as_json(self, messages: Sequence[Message]) -> list[bytes | None]:
        """The messages in JSON, as far as their schemas are known."""
        return [text for text in self._read(messages) if text]

    def _read(self, messages: Sequence[Message]) -> list[bytes | None]:
        """Each message in JSON; None for one that cannot be read."""
        numbers = [number for each in messages if (number := avro.number_of(each.value)) is not None]
        read = avro.reader(self._prepared(numbers))
        texts = (read(each.value)[0] if each.value else None for each in messages)
        return [text.encode() if text else None for text in texts]

    def _prepared(self, numbers: Sequence[int]) -> dict[int, tuple[str, str]]:
        avro.need_client()
        return avro.prepared(avro.fetched(self.registry or "", sorted(set(numbers))))
