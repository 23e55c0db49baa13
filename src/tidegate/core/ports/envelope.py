"""What an envelope implements: how a log writes its events, as messages of key and value or as rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol, Self

from tidegate.core.log import Message
from tidegate.core.schema import Schema
from tidegate.core.transactions import Ending, Member

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Envelope(Protocol):
    """How a log writes its events. An envelope is a subclass of `MessageEnvelope` or of `RowEnvelope`.

    `messages` says which of them it is. `needs_registry` says that its messages name schemas that a registry keeps.
    """

    kind: ClassVar[str]
    messages: ClassVar[bool]
    needs_registry: ClassVar[bool] = False

    def with_registry(self, url: str | None) -> Self:  # noqa: ARG002 - by default none is needed
        """The same with the URL of its registry. Raises ConfigError where it needs one and there is none."""
        return self

    def keyed_by(self, key: Sequence[str]) -> Self:  # noqa: ARG002 - by default a changed key is two events
        """The same for a stream with that key: an update by which it may have changed unseen is refused."""
        return self

    @property
    def transactions(self) -> TransactionMarkers | None:
        """What its messages tell of the transactions that they are of; None where they tell nothing."""
        return None


class MessageEnvelope(Envelope, Protocol):
    """Takes messages of key and value apart."""

    messages: ClassVar[bool] = True

    @abstractmethod
    def schema(self, messages: Sequence[Message], table: Schema | None = None) -> Schema:
        """The columns of the table, as these messages tell them; without Spark.

        Args:
            messages: the newest last.
            table: the columns of the table itself, where it can be asked; their types hold.

        Raises:
            SchemaRefused, PlanError, ConfigError: nothing tells the columns.
        """

    @abstractmethod
    def events(self, messages: DataFrame, schema: Schema) -> DataFrame:
        """Messages as events.

        Args:
            messages: `KEY`, `VALUE`, `PLACE`, `ORIGIN`.

        Rows: one an event that says something, see `core.ports.source.Log`; the columns of `schema` in order with its
            stored types.
        """

    def connector_settings(self, order: Sequence[str]) -> Mapping[str, str] | None:  # noqa: ARG002 - few are Debezium's
        """How a connector of Debezium has to write messages so that this envelope reads them; None where none can.

        Args:
            order: the fields of `source` by which events are ordered.
        """
        return None

    def own(self, messages: Sequence[Message]) -> list[bool]:
        """Which of them may be events of the table that is read; a tombstone is none."""
        return [each.value is not None for each in messages]

    def of_columns(self, messages: Sequence[Message], table: Schema | None) -> Self:  # noqa: ARG002 - as for the others
        """The same for a log with the columns of `schema`; an event with a field outside them is refused."""
        return self

    def primed_with(self, messages: Sequence[Message]) -> Self:  # noqa: ARG002 - by default it is of no use
        """The same, with the same answers, but faster for having seen these messages, the newest last."""
        return self

    def table_of(self, messages: Sequence[Message], before: str | None) -> str | None:  # noqa: ARG002 - by default none
        """The table that all events have to be of; None where nothing names it, or `table:` stands for several.

        Args:
            before: that of the events that were read before; else the newest of the messages that names one says it.
        """
        return None

    def of_table(self, name: str | None) -> Self:  # noqa: ARG002 - by default messages name no table
        """The same for events of that table alone: another one is refused, unless `table:` does not mean that table."""
        return self


class RowEnvelope(Envelope, Protocol):
    """Tells what rows with columns of their own mean."""

    messages: ClassVar[bool] = False

    @abstractmethod
    def schema(self, columns: Schema) -> Schema:
        """The columns of the table among those of the log. Raises ColumnMissing."""

    @abstractmethod
    def events(self, rows: DataFrame, columns: Schema, schema: Schema) -> DataFrame:
        """Rows as events.

        Args:
            rows: the log's columns, `PLACE`, `ORIGIN`, and `REFUSED` and `RAW` of rows that could not be read.
            columns: those of the log, with the types that they are read by.

        Rows: see `MessageEnvelope.events`.
        """


class TransactionMarkers(Protocol):
    """Of which transactions messages are, as Debezium's transaction metadata tells it."""

    def members(self, messages: Sequence[Message]) -> list[Member | None]:
        """The place of each message; None for one that is no part of a transaction, or that nobody takes."""

    def endings(self, messages: Sequence[Message]) -> list[Ending | None]:
        """What each message of the topic of transactions tells; None for one that is no end."""

    def takes(self, table: str) -> bool:
        """Whether events of a table of that name are read."""
