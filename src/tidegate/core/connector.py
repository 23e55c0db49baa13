"""What a connector of Kafka Connect must be configured with, so that its topics can be read exactly.

Values only: dialects say how their database is captured, envelopes how messages are written, sources what is captured.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.core.addresses import refuse_clear_login
from tidegate.core.ids import Connection
from tidegate.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorOptions:
    """The connector that fills a topic, as the project says; streams of one connector must agree.

    Args:
        name: of the connector in Kafka Connect; by default the topic's prefix.
        slot: the replication slot that it reads, of PostgreSQL; by default `tidegate_` and the prefix.
        publication: the publication that it reads, of PostgreSQL; by default the slot's name.
        url: the REST API of Kafka Connect, which `tidegate status` asks for the connector's state.
        plain_http: send the login of that URL over http:// beyond this machine, where others may read it.
    """

    name: str | None = None
    slot: str | None = None
    publication: str | None = None
    url: str | None = field(default=None, repr=False)
    plain_http: bool = False

    def __post_init__(self) -> None:
        if self.url and not self.plain_http:
            refuse_clear_login(
                self.url, "connector: the login of Kafka Connect", "set `plain_http: true` beside `url:`"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedDatabase:
    """How Debezium captures a database.

    Args:
        connector: Debezium's class.
        settings: how it connects, without a password, and the modes in which no digit of a value is lost.
        order: the fields of `source` by which events are ordered, where a transform has to add them.
        namespace: of a table that is named alone.
        within: what stands before a table's schema in the name of its topic.
        reads_slot: it needs a replication slot and a publication.
        keeps_history: it keeps the history of the schema in a topic.
        is_replica: it is a replica with a number of its own.
    """

    connector: str
    settings: Mapping[str, str]
    order: tuple[str, ...]
    namespace: str
    within: tuple[str, ...] = ()
    reads_slot: bool = False
    keeps_history: bool = False
    is_replica: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedTable:
    """A table whose changes a connector writes to a topic.

    Args:
        topic: with `transactions`, as the stream reads them.
        table: its schema (or database) and name.
        brokers, database_name: the connections of both ends.
        messages: how its envelope wants messages to be written.
    """

    topic: str
    transactions: str | None
    table: tuple[str, str]
    brokers: Connection
    database_name: str
    database: CapturedDatabase
    messages: Mapping[str, str]
    options: ConnectorOptions

    @property
    def prefix(self) -> str:
        """`topic.prefix` of the connector. Raises ConfigError where no connector would write to this topic."""
        parts = (*self.database.within, *self.table)
        suffix = "".join(f".{re.sub(r'[^A-Za-z0-9._-]', '_', part)}" for part in parts)
        if not self.topic.endswith(suffix) or self.topic == suffix:
            raise ConfigError(
                f"Debezium writes changes of {'.'.join(self.table)} to a topic `PREFIX{suffix}`, not to {self.topic}",
                hint=f"Correct `source: {{topic: …}}`, such as `topic: shop{suffix}`, or `table:`.",
            )
        return self.topic.removesuffix(suffix)

    @property
    def name(self) -> str:
        """The connector's."""
        return self.options.name or self.prefix

    @property
    def slot(self) -> str:
        """The replication slot's."""
        return self.options.slot or f"tidegate_{re.sub('[^a-z0-9_]', '_', self.prefix.lower())}"

    @property
    def publication(self) -> str:
        """The publication's."""
        return self.options.publication or self.slot


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorState:
    """What Kafka Connect says of a connector.

    Args:
        state: of the connector: `RUNNING`, `PAUSED`, `FAILED`, …; of its task, where the connector itself runs.
        reason: the first line of what ended a task, for people; None while none failed.
    """

    name: str
    state: str
    reason: str | None = None
