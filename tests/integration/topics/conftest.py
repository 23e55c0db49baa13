"""Topics that are sources: events as Debezium writes them, sent by hand, applied by real loads."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.kafka import KafkaServer
from support.lake import QUICK
from support.workspace import Workspace
from tidegate.core.outcome import Outcome
from tidegate.spark.session import Sessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from support.postgres import PostgresServer

FIELDS = [
    {"type": "int32", "optional": False, "field": "id"},
    {"type": "string", "optional": True, "field": "name"},
    {
        "type": "bytes",
        "optional": True,
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "2", "connect.decimal.precision": "10"},
        "field": "amount",
    },
]
SCHEMA = {
    "type": "struct",
    "fields": [{"type": "struct", "fields": FIELDS, "field": name} for name in ("before", "after")],
}


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    found = Sessions(borrowed=spark).load_session()
    for name, value in QUICK.items():
        found.conf.set(name, value)
    return found


def event(
    op: str,
    row: dict[str, Any] | None,
    lsn: int,
    *,
    commit: int | None = None,
    table: str = "orders",
    schema: dict[str, Any] | None = SCHEMA,
) -> tuple[Any, Any]:
    """Key and value of one message, as Debezium's connector of PostgreSQL writes them."""
    sequence = json.dumps([None if commit is None else str(commit), str(lsn)])
    source = {"connector": "postgresql", "db": "shop", "schema": "public", "table": table, "lsn": lsn}
    source |= {"sequence": sequence, "snapshot": "true" if op == "r" else "false"}
    rows = {"before": row if op == "d" else None, "after": None if op in "dt" else row}
    payload = {**rows, "op": op, "source": source, "transaction": None}
    key = None if row is None else {"payload": {"id": row["id"]}}
    return key, payload if schema is None else {"schema": schema, "payload": payload}


def until(done: Callable[[], object], what: str, *, seconds: float = 120) -> None:
    """Waits for something that comes by itself, or as often as it is asked for."""
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, what
        time.sleep(0.3)


def drop_slot(postgres: PostgresServer, name: str) -> None:
    """Waits for a connector that has stopped to let its slot go, and drops it."""
    slots = "FROM pg_replication_slots WHERE slot_name = %s"

    def gone() -> bool:
        admin.execute(f"SELECT pg_drop_replication_slot(slot_name) {slots} AND NOT active", (name,))
        return admin.execute(f"SELECT 1 {slots}", (name,)).fetchone() is None

    with postgres.connect() as admin:
        until(gone, f"slot {name} stays in use", seconds=30)


@dataclass(kw_only=True)
class Topics:
    """A project that reads topics of one broker."""

    workspace: Workspace
    kafka: KafkaServer
    spark: SparkSession
    stated: dict[str, Any] = field(default_factory=dict)

    def stream(self, topic: str, *, envelope: Any = "debezium", **rest: Any) -> str:
        """One stream of that topic; its name."""
        options = {key: rest.pop(key) for key in ("max_events", "bad_events") if key in rest}
        connections = {"events": {"kafka": self.kafka.bootstrap}, **rest.pop("connections", {})}
        name = f"s{len(self.stated)}"
        self.stated[name] = {
            "source": {"connection": "events", "topic": topic, "envelope": envelope, **rest.pop("source", {})},
            "target": f"lake.shop.{name}",
            "key": ["id"],
            "strategy": {"kind": "cdc", **options},
            "write": "merge",
            **rest,
        }
        self.workspace.write(self.stated, connections=connections, spark={"conf": QUICK})
        return name

    def run(self, stream: str, **options: Any) -> Outcome:
        return self.workspace.run(stream, spark=self.spark, **options).streams[0]

    def loaded(self, stream: str) -> Outcome:
        outcome = self.run(stream)
        assert outcome.error is None, outcome.error
        assert outcome.outcome == "loaded", outcome
        return outcome

    def rows(self, stream: str) -> list[tuple[Any, ...]]:
        """What PyIceberg reads of the stream's table, in order."""
        return sorted(tuple(row.values()) for row in self.workspace.rows(f"shop.{stream}"))


@pytest.fixture
def topics(kafka: KafkaServer, spark: SparkSession, tmp_path: Path) -> Topics:
    return Topics(workspace=Workspace(folder=tmp_path), kafka=kafka, spark=spark)
