"""The table whose changes a connector writes to a topic, and the replication slot that the connector reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tidegate import plugins
from tidegate.core.connector import CapturedTable, ConnectorOptions
from tidegate.core.ids import Connection
from tidegate.core.ports.capabilities import ReplicationSlot
from tidegate.errors import ConfigError
from tidegate.sources.change_log.topic.log import TopicLogOptions
from tidegate.sources.shared.relation import split_name


def captured(
    log: TopicLogOptions, table: str | None, database: Connection | None, options: ConnectorOptions | None
) -> CapturedTable | None:
    """What a topic is filled from; None where its table is not stated, or Debezium cannot capture its database.

    Raises:
        ConfigError: the envelope is none that a connector of Debezium writes.
    """
    if table is None or database is None:
        return None
    dialect: Any = plugins.dialect_of(database.scheme)
    found = dialect().captured(database) if dialect.connects else None
    if found is None:
        return None
    envelope: Any = log.envelope
    messages = envelope.connector_settings(found.order)
    if messages is None:
        raise ConfigError(f"envelope: {envelope.kind} is not one that a connector of Debezium writes")
    parts = split_name(table)
    return CapturedTable(
        topic=log.topic,
        transactions=log.transactions,
        table=(parts[0] if len(parts) > 1 else found.namespace, parts[-1]),
        brokers=log.connection,
        database_name=database.name,
        database=found,
        messages=messages,
        options=options or ConnectorOptions(),
    )


def slot_of(captured: CapturedTable, database: Connection) -> ReplicationSlot | None:
    """The slot that the connector reads, to be asked how much is retained for it; None where it reads none."""
    if not captured.database.reads_slot:
        return None
    from tidegate.sources.change_log.slot.slot import SlotOptions  # noqa: PLC0415 - its driver takes 0.2 s to import

    table = '"."'.join(part.replace('"', '""') for part in captured.table)
    return SlotOptions(
        connection=database, slot=captured.slot, table=f'"{table}"', publication=captured.publication, folder=Path()
    )
