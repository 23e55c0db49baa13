"""Queries Kafka brokers for the offsets, identity and messages of topics.

Never shows the client's configuration, and leaves no trace on the brokers: no consumer group, no committed offset.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tidegate import extras
from tidegate.core.addresses import is_loopback, refuse_clear_login
from tidegate.core.ids import Connection
from tidegate.core.log import Message
from tidegate.errors import ConfigError, EnvironmentMissing, SourceRefused, SourceUnavailable, TidegateError

if TYPE_CHECKING:
    from confluent_kafka import Consumer
    from confluent_kafka.admin import AdminClient

TIMEOUT = 30.0
"""Seconds that the brokers have for an answer."""

BATCH = 10_000
"""Messages that are taken from the client at once."""
POLICY = "cleanup.policy"
UNTOLD = ("TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED", "UNSUPPORTED_VERSION", "_UNSUPPORTED_FEATURE")
"""Answers of brokers that do not tell the configuration of a topic to this client, or to none."""
FIRST = 0.2
"""Seconds that a batch has to fill."""

OPTIONS = {
    "client.id": "client.id",
    "security.protocol": "security.protocol",
    "ssl.ca.location": "ssl.truststore.location",
    "sasl.mechanism": "sasl.mechanism",
    "sasl.username": None,
    "sasl.password": None,
}
"""What a connection may state, as Kafka's clients in C take it, and the word of those in Java; None for a login."""

LOGIN = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOffsets:
    """A topic as it is now.

    Args:
        cluster, topic: the identities of the brokers and of the topic; a topic made again under its name has another.
        begins, ends: of every partition the first offset there is and the one after the last that is committed.
        cleanup: its `cleanup.policy`; None where the client may not read it.
    """

    cluster: str
    topic: str
    begins: Mapping[int, int]
    ends: Mapping[int, int]
    cleanup: str | None

    @property
    def compacted(self) -> bool:
        """Whether of the messages with one key only the last stays, so that others vanish behind any position."""
        return "compact" in (each.strip() for each in (self.cleanup or "").split(","))


@dataclass(frozen=True, slots=True)
class ReadMessage:
    """A message as it was read; `at` is when it was written, in milliseconds, 0 where it does not say."""

    part: int
    offset: int
    at: int
    message: Message


def check(connection: Connection) -> None:
    """Raises ConfigError for a connection that is none to brokers."""
    if not connection.kafka:
        raise ConfigError(
            f"connection {connection.name!r} is not a Kafka connection",
            hint='Set `connections: {events: {kafka: "host:9092"}}`.',
        )
    if connection.registry and not connection.plain_http:
        of_registry = f"connection {connection.name!r}: the login of the schema registry"
        refuse_clear_login(connection.registry, of_registry, "set `plain_http: true` beside `registry:`")
    unknown = sorted(set(connection.options) - set(OPTIONS))
    if unknown:
        known = ", ".join(OPTIONS)
        raise ConfigError(f"connection {connection.name!r}: options: {unknown[0]!r} is not known; known: {known}")
    mechanism = str(connection.options.get("sasl.mechanism", "PLAIN"))
    if "sasl.username" in connection.options and mechanism not in LOGIN:
        raise ConfigError(
            f"connection {connection.name!r}: sasl.mechanism: {mechanism!r} is not one of {', '.join(LOGIN)}"
        )


def for_spark(connection: Connection) -> dict[str, str]:
    """The options of Spark's source for these brokers."""
    texts = _options(connection)
    found = {f"kafka.{java}": texts[name] for name, java in OPTIONS.items() if java and name in texts}
    if "ssl.ca.location" in texts:
        found["kafka.ssl.truststore.type"] = "PEM"
    if "sasl.username" in texts:
        mechanism = texts["sasl.mechanism"]
        login = (f'{word}="{_quoted(texts.get(f"sasl.{word}", ""))}"' for word in ("username", "password"))
        found["kafka.sasl.mechanism"] = mechanism
        found["kafka.sasl.jaas.config"] = f"{LOGIN[mechanism]} required {' '.join(login)};"
    return {"kafka.bootstrap.servers": connection.kafka or "", **found}


def in_the_clear(connection: Connection) -> str | None:
    """A warning where others may read what is sent to the brokers; None where it is encrypted or stays here."""
    protocol = _options(connection).get("security.protocol", "PLAINTEXT").upper()
    places = (connection.kafka or "").split(",")
    if not protocol.endswith("PLAINTEXT") or all(is_loopback(place.strip().rpartition(":")[0]) for place in places):
        return None
    what = "the login and every message" if protocol.startswith("SASL") else "every message"
    return (
        f"connection {connection.name!r}: others on the network may read {what} (security.protocol: {protocol}); "
        f"{'SASL_SSL' if protocol.startswith('SASL') else 'SSL'} encrypts and verifies the brokers"
    )


def _options(connection: Connection) -> dict[str, str]:
    """The options of both clients: a login, which neither would use without a protocol for it, goes over TLS."""
    texts = {name: str(value) for name, value in connection.options.items()}
    if "sasl.username" in texts:
        texts = {"sasl.mechanism": "PLAIN", "security.protocol": "SASL_SSL", **texts}
    return texts


class Brokers:
    """Questions to the brokers of a connection."""

    def __init__(self, connection: Connection) -> None:
        check(connection)
        self._connection = connection

    def topic(self, name: str) -> TopicOffsets | None:
        """The topic as it is now; None where there is none.

        Raises:
            SourceUnavailable: the brokers do not answer.
            SourceRefused: they refuse the client.
        """
        with self._asking():
            from confluent_kafka import IsolationLevel, TopicCollection, TopicPartition  # noqa: PLC0415 - only where a topic is read
            from confluent_kafka import admin as offsets  # noqa: PLC0415 - as above

            spec_of: Any = offsets  # its stubs leave out what it exports
            admin = self._admin()
            known = admin.list_topics(timeout=TIMEOUT).topics
            if name not in known:
                return None
            cluster = admin.describe_cluster(request_timeout=TIMEOUT).result()
            described = admin.describe_topics(TopicCollection([name]), request_timeout=TIMEOUT)[name].result()
            parts = [TopicPartition(name, part.id) for part in described.partitions]
            found = []
            for spec in (spec_of.OffsetSpec.earliest(), spec_of.OffsetSpec.latest()):
                # What a transaction has not committed yet is not there yet.
                asked = admin.list_offsets(
                    dict.fromkeys(parts, spec), isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=TIMEOUT
                )
                found.append({part.partition: answer.result().offset for part, answer in asked.items()})
            cleanup = _cleanup(admin, name)
        begins, ends = found
        return TopicOffsets(
            cluster=cluster.cluster_id or "", topic=str(described.topic_id), begins=begins, ends=ends, cleanup=cleanup
        )

    def written_at(self, topic: str, offsets: Mapping[int, int]) -> datetime | None:
        """When the oldest of these messages was written; None where there is none."""
        spans = {part: (offset, offset + 1) for part, offset in offsets.items()}
        found = [each.at for batch in self.scan(topic, spans) for each in batch if each.at > 0]
        return datetime.fromtimestamp(min(found) / 1000, tz=UTC) if found else None

    def offset_at(self, topic: str, moment: int) -> int | None:
        """The first offset of a topic of one partition that was written at that moment or later; None for none.

        Args:
            moment: in milliseconds.
        """
        with self._asking(), self._consumer() as consumer:
            from confluent_kafka import TopicPartition  # noqa: PLC0415 - as above

            (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, max(moment, 0))], timeout=TIMEOUT)
            return found.offset if found.offset >= 0 else None

    def scan(self, topic: str, spans: Mapping[int, tuple[int, int]]) -> Iterator[list[ReadMessage]]:
        """The messages of spans of offsets, their end excluded, in batches; each partition's in order."""
        wanted = {part: span for part, span in spans.items() if span[0] < span[1]}
        if not wanted:
            return
        with self._asking(), self._consumer() as consumer:
            from confluent_kafka import TopicPartition  # noqa: PLC0415 - as above

            consumer.assign([TopicPartition(topic, part, start) for part, (start, _) in wanted.items()])
            open_parts = dict(wanted)
            while open_parts:
                left = sum(end - next_ for next_, end in open_parts.values())
                messages = consumer.consume(min(left, BATCH), FIRST) or consumer.consume(1, TIMEOUT)
                if not messages:
                    raise self._silent()
                found, ended = _taken(messages, open_parts)
                if ended and open_parts:  # nothing more of these is fetched
                    consumer.pause([TopicPartition(topic, part) for part in ended])
                if found:
                    yield found

    def _admin(self) -> AdminClient:
        from confluent_kafka.admin import AdminClient  # noqa: PLC0415 - as above

        return AdminClient(self._conf())

    @contextmanager
    def _consumer(self) -> Iterator[Consumer]:
        from confluent_kafka import Consumer  # noqa: PLC0415 - as above

        consumer = Consumer(
            {
                **self._conf(),
                "group.id": "tidegate",  # nobody joins it: partitions are assigned, and nothing is committed
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",
            }
        )
        try:
            yield consumer
        finally:
            consumer.close()

    def _conf(self) -> dict[str, Any]:
        options = _options(self._connection)
        # Its own log would tell of every attempt; what it could not do is raised.
        return {"bootstrap.servers": self._connection.kafka, **options, "log_level": 0, "error_cb": _ignored}

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            from confluent_kafka import KafkaException  # noqa: PLC0415 - as above
        except ImportError as error:
            raise EnvironmentMissing("the Kafka client is not installed", hint=extras.hint("kafka")) from error
        try:
            yield
        except TidegateError:
            raise
        except (KafkaException, _Refusal) as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> SourceUnavailable:
        problem: Any = error.args[0] if error.args else None
        name = str(problem.name()) if hasattr(problem, "name") else type(error).__name__
        if "AUTH" in name:
            return SourceRefused(
                f"Kafka at connection {self._connection.name!r} rejected the client ({name})",
                hint="Correct the `options:` of the connection, then run `tidegate doctor`.",
            )
        return SourceUnavailable(f"Kafka at connection {self._connection.name!r} does not answer ({name})")

    def _silent(self) -> SourceUnavailable:
        return SourceUnavailable(f"Kafka at connection {self._connection.name!r} returns no messages")


class _Refusal(Exception):
    """A message that is an error."""


def _cleanup(admin: AdminClient, topic: str) -> str | None:
    from confluent_kafka import KafkaException  # noqa: PLC0415 - only where a topic is read
    from confluent_kafka import admin as configs  # noqa: PLC0415 - as above

    spec_of: Any = configs  # its stubs leave out what it exports
    asked = spec_of.ConfigResource(spec_of.ResourceType.TOPIC, topic)
    try:
        found = admin.describe_configs([asked], request_timeout=TIMEOUT)[asked].result()
    except KafkaException as error:
        if error.args[0].name() in UNTOLD:
            return None
        raise
    return found[POLICY].value if POLICY in found else None


def spread(waiting: Mapping[int, int], most: int | None) -> dict[int, int]:
    """How many of the messages that wait in each partition are taken: all, or `most` in equal shares.

    Example:
        >>> spread({0: 10, 1: 2, 2: 10}, 12)
        {0: 5, 1: 2, 2: 5}
    """
    if most is None or sum(waiting.values()) <= most:
        return dict(waiting)
    taken: dict[int, int] = {}
    left = most
    for done, (part, count) in enumerate(sorted(waiting.items(), key=lambda item: (item[1], item[0]))):
        taken[part] = min(count, left // (len(waiting) - done))
        left -= taken[part]
    if not any(taken.values()):
        taken[max(waiting, key=lambda part: waiting[part])] = most
    return dict(sorted(taken.items()))


def _taken(messages: list[Any], open_parts: dict[int, tuple[int, int]]) -> tuple[list[ReadMessage], list[int]]:
    """Those that are within their span, and the partitions that are at its end now; what is left of spans is noted."""
    found: list[ReadMessage] = []
    ended: list[int] = []
    for message in messages:
        part, offset = message.partition() or 0, message.offset() or 0
        if (problem := message.error()) is not None:
            if not _at_end(problem):
                raise _Refusal(problem)
            # Marks of transactions may be all that there is before an end.
            offset = sys.maxsize
        elif part in open_parts and offset < open_parts[part][1]:
            at = max(message.timestamp()[1], 0)
            found.append(ReadMessage(part, offset, at, Message(key=message.key(), value=message.value())))
        if part in open_parts:
            end = open_parts[part][1]
            open_parts[part] = (offset + 1, end)
            if offset + 1 >= end:
                del open_parts[part]
                ended.append(part)
    return found, ended


def _at_end(problem: Any) -> bool:
    return bool(problem.name() == "_PARTITION_EOF")


def _ignored(problem: object) -> None:
    """What a client could not do is raised where it was asked."""


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
