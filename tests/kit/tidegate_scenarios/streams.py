"""The streams of a certification: each strategy and each type that may be tried with a database.

Which of them the database serves is asked of `Project.check`, as for any project.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tidegate_scenarios.certification import Certification, Sample

CONNECTION = "certified"
LAKE = "lake"
NAMESPACE = "certify"
TYPES, ORDERS, EVENTS = "tidegate_types", "tidegate_orders", "tidegate_events"
CLOCK = "changed_at"
ONLY = "only_"
"""What the streams begin with that load a column of one type alone."""

Stream = dict[str, Any]


def streams(kit: Certification, samples: tuple[Sample, ...], labels: Mapping[str, str], slot: str) -> dict[str, Stream]:
    """By name; `labels` are the names of the tables as streams have them, `slot` that of a log of the database."""
    found = dict(_types(samples, labels[TYPES]))
    found |= dict(_strategies(kit, labels[ORDERS]))
    found["sequence"] = {
        "source": {"connection": CONNECTION, "table": labels[EVENTS]},
        "strategy": {"kind": "sequence", "column": "id"},
        "write": "append",
    }
    found |= dict(_logs(kit, labels[ORDERS], slot))
    return {name: {**stream, "target": f"{LAKE}.{NAMESPACE}.{name}"} for name, stream in found.items()}


def _logs(kit: Certification, table: str, instance: str) -> Iterator[tuple[str, Stream]]:
    for name, log in ({each.name: each.source(instance) for each in kit.logs} or {"cdc": {"slot": instance}}).items():
        source = {"connection": CONNECTION, "table": table, **log}
        yield name, {"source": source, "strategy": "cdc", "write": "merge", "key": ["id"]}


def _types(samples: tuple[Sample, ...], table: str) -> Iterator[tuple[str, Stream]]:
    whole = {"connection": CONNECTION, "table": table, **_stated(samples)}
    each = {"kind": "checksum", "method": "by_integer", "column": "id", "modulus": 1}
    yield "types", {"source": whole, "key": ["id"], "strategy": "full", "write": "replace"}
    yield "types_snapshot_diff", {"source": whole, "key": ["id"], "strategy": "snapshot_diff", "write": "merge"}
    yield "types_checksum", {"source": whole, "key": ["id"], "strategy": each, "write": "merge"}
    yield "types_prefilter", {"source": whole, "key": ["id"], "strategy": {**each, "prefilter": True}, "write": "merge"}
    for sample in samples:
        alone = {"connection": CONNECTION, "table": table, "include": ["id", sample.name], **_stated((sample,))}
        yield f"{ONLY}{sample.name}", {"source": alone, "key": ["id"], "strategy": "full", "write": "replace"}


def _stated(samples: tuple[Sample, ...]) -> dict[str, Any]:
    stated = {sample.name: sample.read_as for sample in samples if sample.read_as}
    return {"columns": stated} if stated else {}


def _strategies(kit: Certification, table: str) -> Iterator[tuple[str, Stream]]:
    """Over one table: its key is `id`, and so is `code`, a text."""
    zone = {"time_zone": kit.zone} if kit.zone else {}
    clocked = {"kind": "watermark", "column": CLOCK, **zone}
    by_id = {"kind": "checksum", "method": "by_integer", "column": "id", "modulus": 4}
    by_text = {"kind": "checksum", "method": "by_substr", "column": "code", "length": 1}
    late = {**clocked, "clock": "application", "safety_lag": "1s", "lookback": "1h"}
    strategies: dict[str, tuple[str, str, Any]] = {
        "full": ("id", "merge", "full"),
        "snapshot_diff": ("id", "merge", "snapshot_diff"),
        "snapshot_diff_by_text": ("code", "merge", "snapshot_diff"),
        "checksum": ("id", "merge", by_id),
        "checksum_by_text": ("code", "merge", by_text),
        "smart": ("id", "merge", "smart"),
        "interrupted": ("id", "replace", "full"),
    }
    seen: dict[str, tuple[str, str, Any]] = {
        "watermark": ("id", "merge", clocked),
        "watermark_application": ("id", "merge", late),
        "smart_column": ("id", "merge", {"kind": "smart", "column": CLOCK, **zone}),
    }
    for name, (key, write, strategy) in {**strategies, **seen}.items():
        stream = {
            "source": {"connection": CONNECTION, "table": table},
            "key": [key],
            "strategy": strategy,
            "write": write,
        }
        # A cursor does not show deletes.
        yield name, {**stream, **({"deletes": {"detect": "key_diff"}} if name in seen else {})}
