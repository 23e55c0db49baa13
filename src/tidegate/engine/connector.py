"""The configuration of the connector that fills the topics of streams, and what applying it would change.

Prints no password, and leaves out no table that another stream reads from the same connector.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.core.connector import CapturedTable
from tidegate.core.secret_names import SECRET_NAME
from tidegate.engine import kafka_connect
from tidegate.engine.stream import Stream
from tidegate.errors import ConfigError, Incompatible

TABLES = "table.include.list"
PASSWORD = "database.password"  # noqa: S105 - the name of a setting
HEARTBEAT_MS = 10_000
REFERENCE = re.compile(r"\$\{[^{}$]+:[^{}$]+\}")

IDENTITY = (
    "connector.class",
    "topic.prefix",
    "slot.name",
    "publication.name",
    "database.hostname",
    "database.port",
    "database.dbname",
    "database.names",
    "database.pdb.name",
    "schema.history.internal.kafka.topic",
)
"""Settings with another value of which a connector reads another log, or from another place in it."""
MEANING = re.compile(
    r"transforms|predicates|converters|column\.|key\.converter|value\.converter|message\.key\.columns|topic\.naming|"
    r"table\.exclude|(schema|database)\.(in|ex)clude|snapshot\.select|publish\.via|.*handling\.mode$|event\."
)
"""Settings that change what events say, or which there are: none stays that Tidegate does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connector:
    """A connector of Debezium.

    Args:
        config: its settings, all texts; a password only as a reference of Kafka Connect.
        streams: those whose topics it fills.
    """

    name: str
    config: Mapping[str, str]
    streams: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """As Kafka Connect takes it."""
        return {"name": self.name, "config": dict(self.config)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One setting that applying a configuration changes; None for a value that is not there.

    Args:
        loses: events, or their meaning, may be lost by it.
    """

    setting: str
    before: str | None
    after: str | None
    loses: bool = False

    def to_dict(self) -> dict[str, Any]:
        """JSON types only; no value of a secret."""
        return {"setting": self.setting, "before": self.before, "after": self.after, "loses": self.loses}


def connector_of(streams: Sequence[Stream], name: str, password: str | None = None) -> Connector:
    """The connector of a stream, with the tables of all streams that it fills.

    Args:
        streams: all of the project.
        password: the reference under which Kafka Connect finds the database's password.

    Raises:
        ConfigError: the stream reads no topic of a connector, its table is not stated, or the reference is none.
        Incompatible: streams of one connector want different things of it.
    """
    stream = next(each for each in streams if each.name == name)
    wanted = stream.source.captured
    if wanted is None:
        raise ConfigError(
            f"stream {name!r} reads no topic that a connector of Debezium fills, or does not say from which table",
            hint="A connector needs `source: {topic: …, envelope: debezium, database: …, table: …}`, where `database:` "
            "is a connection to PostgreSQL, MariaDB, MySQL, SQL Server or Oracle. A stream with `slot:` needs none.",
        )
    if password is not None and not REFERENCE.fullmatch(password):
        raise ConfigError(
            "the password must be a reference of Kafka Connect, never the password itself",
            hint="Use --password '${file:/opt/connect/shop.properties:password}' or '${env:SHOP_PASSWORD}'.",
        )
    tables = {each.name: table for each in streams if (table := each.source.captured) and _is_same(table, wanted)}
    _refuse_contradictions(tables)
    reference = password or f"${{env:{re.sub('[^A-Z0-9_]', '_', wanted.database_name.upper())}_PASSWORD}}"
    stated = next((one for one in tables.values() if one.options != type(one.options)()), wanted)
    return Connector(name=stated.name, config=_config(stated, tuple(tables.values()), reference), streams=tuple(tables))


def _is_same(table: CapturedTable, wanted: CapturedTable) -> bool:
    return (table.brokers.name, table.database_name) == (wanted.brokers.name, wanted.database_name) and (
        table.prefix == wanted.prefix
    )


def _refuse_contradictions(tables: Mapping[str, CapturedTable]) -> None:
    def differ(what: str, values: Mapping[str, Any]) -> None:
        first, *others = values
        other = next((each for each in others if values[each] != values[first]), None)
        if other is not None:
            raise Incompatible(
                f"streams {first!r} and {other!r} read topics of one connector, but differ in {what}",
                hint=f"Give both the same {what}, or topics of connectors with different prefixes.",
            )

    differ("`envelope:`", {name: table.messages for name, table in tables.items()})
    stated = {name: table.options for name, table in tables.items() if table.options != type(table.options)()}
    if stated:
        differ("`connector:`", stated)
    transactions = {name: table.transactions for name, table in tables.items() if table.transactions is not None}
    if transactions:
        differ("`transactions:`", transactions)


def _config(table: CapturedTable, tables: Sequence[CapturedTable], password: str) -> dict[str, str]:
    """Kafka Connect's settings; those that come later may say more than those before."""
    database, prefix = table.database, table.prefix
    config = {
        "connector.class": database.connector,
        "tasks.max": "1",
        "topic.prefix": prefix,
        **database.settings,
        PASSWORD: password,
        TABLES: ",".join(sorted({_included(each.table) for each in tables})),
        # Of a history of nothing but events, an older row could come later, or never.
        "snapshot.mode": "initial",
        # The reader needs none, and a topic of events must not be compacted.
        "tombstones.on.delete": "false",
        "heartbeat.interval.ms": str(HEARTBEAT_MS),
        "topic.creation.default.replication.factor": "-1",
        "topic.creation.default.partitions": "-1",
        "topic.creation.default.cleanup.policy": "delete",
        **table.messages,
    }
    if database.reads_slot:
        config |= {"slot.name": table.slot, "publication.name": table.publication}
    if database.keeps_history:
        config |= _history(table)
    transactions = next((each.transactions for each in tables if each.transactions is not None), None)
    if transactions is not None:
        name = transactions.removeprefix(f"{prefix}.")
        if name == transactions:
            raise ConfigError(
                f"transactions: {transactions!r} is no topic of the connector with the prefix {prefix}",
                hint=f"Use `transactions: {prefix}.transaction`.",
            )
        config |= {"provide.transaction.metadata": "true", "topic.transaction": name}
    return dict(sorted(config.items(), key=lambda item: (item[0] != "connector.class", item[0])))


def _included(table: tuple[str, str]) -> str:
    """A table in Debezium's list of patterns."""
    if any("," in part for part in table):
        raise ConfigError(f"Debezium's `{TABLES}` cannot hold the name {'.'.join(table)!r}, which has a comma")
    return ".".join(re.escape(part) for part in table)


def _history(table: CapturedTable) -> dict[str, str]:
    """Where the history of the schema is kept, and the number of the replica that the connector is for the server."""
    kafka = table.brokers
    found = {
        "schema.history.internal.kafka.bootstrap.servers": kafka.kafka or "",
        "schema.history.internal.kafka.topic": f"{table.prefix}.schema-history",
    }
    if table.database.is_replica:
        found["database.server.id"] = str(10_000 + zlib.crc32(table.name.encode()) % 4_000_000_000)
    options = {name: str(value) for name, value in kafka.options.items()}
    for client in ("producer", "consumer") if "security.protocol" in options else ():
        known: tuple[str, ...] = ("security.protocol", "sasl.mechanism")
        own = {name: options[name] for name in known if name in options}
        own |= {"sasl.jaas.config": "${env:KAFKA_JAAS_CONFIG}"} if "sasl.username" in options else {}
        found |= {f"schema.history.internal.{client}.{name}": value for name, value in own.items()}
    return found


def changes(before: Mapping[str, str] | None, connector: Connector) -> tuple[dict[str, str], list[Change]]:
    """What a connector is configured with afterwards, and what changes by that.

    Settings that Tidegate does not know stay, but for those that change what events say. A password that is there
    stays, too.

    Args:
        before: its settings now; None for one that is not there.
    """
    old = {name: value for name, value in (before or {}).items() if name != "name"}
    wanted = dict(connector.config)
    if PASSWORD in old and PASSWORD in wanted:
        wanted[PASSWORD] = old[PASSWORD]
    kept = {name: value for name, value in old.items() if name not in wanted and not MEANING.match(name)}
    after = {**kept, **wanted}
    differing = [name for name in sorted({*old, *after}) if old.get(name) != after.get(name)]
    return after, [
        Change(
            setting=name,
            before=_shown(name, old.get(name)),
            after=_shown(name, after.get(name)),
            loses=before is not None and _loses(name, old.get(name), after.get(name)),
        )
        for name in differing
    ]


def _loses(name: str, before: str | None, after: str | None) -> bool:
    if name == TABLES:
        return not {each.strip() for each in (before or "").split(",")} <= set((after or "").split(","))
    return before is not None and (name in IDENTITY or after is None)


def _shown(name: str, value: str | None) -> str | None:
    """A value for people: of a secret only a reference."""
    return "***" if value is not None and SECRET_NAME.search(name) and not REFERENCE.fullmatch(value) else value


def apply(connector: Connector, url: str, *, confirmed: bool, plain_http: bool = False) -> list[Change]:
    """Configures Kafka Connect, and returns what that changed; nothing is sent where nothing differs.

    Raises:
        ConfigError: events, or their meaning, might be lost by a change that is not confirmed.
        SourceError: Kafka Connect does not answer, or refuses the configuration; its reason is passed on.
    """
    server = kafka_connect.KafkaConnect(url, plain_http=plain_http)
    after, found = changes(server.config(connector.name), connector)
    losing = [each for each in found if each.loses]
    if losing and not confirmed:
        texts = (f"{each.setting} ({each.before} -> {each.after or 'removed'})" for each in losing)
        raise ConfigError(
            f"connector {connector.name!r} exists, and events could be lost or mean something else by changing "
            f"{', '.join(texts)}",
            hint="Correct the project (`source: {connector: {slot: …}}` names what exists), or confirm with --yes.",
        )
    if found:
        server.put(connector.name, after)
    return found
