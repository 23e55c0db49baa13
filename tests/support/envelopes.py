"""Messages of change logs for tests, and what an envelope makes of them on Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.core.log import CLEARS, KEY, ORIGIN, PLACE, RAW, REFUSED, UNKNOWN, VALUE, Message
from tidegate.core.schema import Schema
from tidegate.spark.dataframe_ops import DELETED, ORDER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GOLDEN = Path(__file__).parents[1] / "golden/envelopes"
HOLDER = "__debezium_unavailable_value"
Messages = Sequence[tuple[Any, Any]]
PLACE_IN_LOG = {"connector": "postgresql", "db": "d", "schema": "public", "table": "t", "sequence": '["1","5"]'}


def golden(name: str) -> list[tuple[str | None, str | None]]:
    lines = (GOLDEN / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [(each["key"], each["value"]) for each in map(json.loads, lines)]


def as_bytes(content: Any) -> bytes | None:
    if content is None or isinstance(content, bytes):
        return content
    return (content if isinstance(content, str) else json.dumps(content, separators=(",", ":"))).encode()


def told(session: SparkSession, envelope: Any, messages: Messages) -> list[dict[str, Any]]:
    """Events as the envelope tells them, by name; times as texts, which Python's cannot hold all of."""
    plain = [(as_bytes(key), as_bytes(value)) for key, value in messages]
    schema = envelope.schema([Message(key=key, value=value) for key, value in plain])
    rows = [
        (key and bytearray(key), None if value is None else bytearray(value), f"{n:03}", f"offset {n:03}")
        for n, (key, value) in enumerate(plain)
    ]
    columns = f"{KEY} binary, {VALUE} binary, {PLACE} string, {ORIGIN} string"
    found = _told(session.createDataFrame(rows, columns), envelope, schema)
    seen = envelope.primed_with([Message(key=key, value=value) for key, value in plain])
    known = _told(session.createDataFrame(rows, columns), seen, schema)
    assert str(known) == str(found), "what is known only makes it faster; as texts, where NaN is NaN"
    return found


def _told(messages: DataFrame, envelope: Any, schema: Schema) -> list[dict[str, Any]]:
    frame = envelope.events(messages, schema)
    assert frame.columns == [*schema.names, DELETED, ORDER, UNKNOWN, CLEARS, REFUSED, ORIGIN, RAW]
    assert [kind for name, kind in frame.dtypes if name in schema.names] == [column.type.spark for column in schema]
    texts = [
        f"CAST(`{name}` AS string) AS `{name}`" if kind.startswith(("timestamp", "date")) else f"`{name}`"
        for name, kind in frame.dtypes
    ]
    found = (row.asDict() for row in frame.selectExpr(*texts).collect())
    return sorted(found, key=lambda event: event[ORIGIN])


def columns(event: dict[str, Any]) -> dict[str, Any]:
    return {
        name: bytes(value) if isinstance(value, bytearray) else value
        for name, value in event.items()
        if not name.startswith("__tidegate")
    }


def bare(op: str = "c", source: Any = PLACE_IN_LOG, **parts: Any) -> dict[str, Any]:
    return {"op": op, "source": source, **parts}
