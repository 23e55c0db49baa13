"""The envelope `debezium`: Debezium events in JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from tidegate.core.log import Message
from tidegate.core.ports.envelope import MessageEnvelope, TransactionMarkers
from tidegate.core.schema import Schema
from tidegate.core.transactions import Ending, Member
from tidegate.envelopes import _connect as connect
from tidegate.envelopes import _debezium as debezium
from tidegate.envelopes import _origin as origin
from tidegate.envelopes import _schemas as schemas
from tidegate.envelopes import _transactions as transactions
from tidegate.envelopes._events import Encodings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Debezium(MessageEnvelope):
    """Debezium's events in JSON, with or without a schema in each message.

    Args:
        table: take only the events of this table, `*` for any text; unless given, all events must be of one table.
        columns: types by name where the messages carry no schema: `{amount: "decimal(10,2) as bytes"}`.
        unavailable: the placeholder of a value that the database did not log (`unavailable.value.placeholder`).
        lob_enabled: the connector of Oracle captures LOBs (`lob.enabled=true`), so that its placeholder says unchanged.
        wall_clock: order MongoDB's events by the clock of its servers, where they say no other time.
        only: of which table every event has to be.
        key: the stream's.
        fields: those that rows may have; None for any.
        known: schemas that messages are known to carry, so that they are read faster.
    """

    kind: ClassVar[str] = "debezium"

    table: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    unavailable: str = "__debezium_unavailable_value"
    lob_enabled: bool = False
    wall_clock: bool = False
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
        return debezium.schema_of([each.value for each in messages], self.columns, table)

    def connector_settings(self, order: Sequence[str]) -> Mapping[str, str]:  # noqa: ARG002 - all are there
        """See `MessageEnvelope`."""
        return debezium.json_settings(self.unavailable)

    def primed_with(self, messages: Sequence[Message]) -> Debezium:
        """See `MessageEnvelope`."""
        return replace(self, known=schemas.known([each.value for each in messages], "after", "before"))

    def keyed_by(self, key: Sequence[str]) -> Debezium:
        """See `Envelope`."""
        return replace(self, key=tuple(key))

    def table_of(self, messages: Sequence[Message], before: str | None) -> str | None:
        """See `MessageEnvelope`."""
        return debezium.table_of([each.value for each in messages], self.table, before)

    def of_table(self, name: str | None) -> Debezium:
        """See `MessageEnvelope`."""
        return replace(self, only=origin.fitting(name, self.table))

    def own(self, messages: Sequence[Message]) -> list[bool]:
        """See `MessageEnvelope`."""
        return debezium.own([each.value for each in messages], self.table, self.only)

    def of_columns(self, messages: Sequence[Message], table: Schema | None) -> Debezium:
        """See `MessageEnvelope`."""
        return replace(self, fields=debezium.fields_of([each.value for each in messages], self.columns, table))

    def events(self, messages: DataFrame, schema: Schema) -> DataFrame:
        """Messages as events; tombstones and the log's own messages say nothing and are left out."""
        ways = Encodings(stated=connect.stated(self.columns), unavailable=self.unavailable, known=self.known)
        reading = debezium.ReadOptions(
            table=self.table,
            only=self.only,
            ways=ways,
            lob_enabled=self.lob_enabled,
            wall_clock=self.wall_clock,
            key=self.key,
            fields=self.fields,
        )
        return debezium.events_of(messages, schema, reading)

    @property
    def transactions(self) -> TransactionMarkers:
        """Those that Debezium adds."""
        return self

    def members(self, messages: Sequence[Message]) -> list[Member | None]:
        """See `TransactionMarkers`."""
        wanted = self.takes if self.table is not None else None
        return [transactions.member_of(each.value, wanted) for each in messages]

    def endings(self, messages: Sequence[Message]) -> list[Ending | None]:
        """See `TransactionMarkers`."""
        return [transactions.ending_of(each.value) for each in messages]

    def takes(self, table: str) -> bool:
        """See `TransactionMarkers`."""
        return transactions.takes(self.table, self.only, table)
