"""Decides whether a position still proves what the table holds, for strategies that make up for everything each run.

Such a strategy leaves the table as the source is, whoever else wrote to it and whatever the project said before. It may
skip a run only where the table is the one that its own load left, made by the same settings.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass, replace
from typing import Any

from tidegate.core.policies.rules import Judges
from tidegate.core.position import Position
from tidegate.core.position_state import AS_LOADED, proof_of
from tidegate.core.schema import ChangeKind, compare
from tidegate.engine.context import LoadContext
from tidegate.engine.stream import Stream, VerifyLevel

KEPT = frozenset({ChangeKind.DROP_COLUMN, ChangeKind.NARROW})
"""Differences that a table may keep for good: they leave nothing for a load to do."""


def trusted(work: LoadContext, since: Position) -> tuple[Position, str | None]:
    """The position as the strategy may use it, and why it claims nothing of the table's rows; None where it does."""
    reason = next(_doubts(work, since), None) if work.stream.strategy.restores else None
    return (since if reason is None else replace(since, state=work.stream.strategy.unclaimed(since.state))), reason


def claim(work: LoadContext) -> Mapping[str, Any]:
    """What a load of the whole table adds to its position, so that `trusted` can use it later."""
    return {
        AS_LOADED: {"settings": settings(work.stream), "partitioning": work.recovered.table.since_load.partitioning}
    }


def settings(stream: Stream) -> str:
    """Sixteen hex digits that change with any setting that could change the table for the same source.

    Contains no secret: values that are hidden from texts are left out.
    """
    shaping = (
        stream.source,
        stream.strategy,
        stream.writer,
        stream.key,
        stream.policies.verify,
        stream.policies.contract,
        stream.policies.layout,
        stream.policies.deletes,
        stream.policies.checks,
    )
    text = json.dumps([_plain(value) for value in shaping], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _doubts(work: LoadContext, since: Position) -> Iterator[str]:
    """Reasons why the position does not prove what the table holds, the cheapest to find first."""
    stream, table, proof = work.stream, work.recovered.table, proof_of(since.state)
    if not work.recovered.proven:
        yield "the last load was never verified"
    if proof.get("load") != since.load_id:
        yield "the last load did not note what the whole source was"
    if stream.policies.verify is VerifyLevel.NONE and not stream.format.invisible:
        yield "with verify: none nothing shows whether the last load was written as a whole"
    if proof.get("settings") != settings(stream):
        yield "settings of the stream have changed"
    if not table.since_load.same_rows:
        yield "others have changed the table since the last load"
    if proof.get("partitioning") != table.since_load.partitioning:
        yield "the table's partitioning has changed"
    if any(rule.check.judges is Judges.LOOKUP for rule in stream.policies.checks):
        yield "a check of the stream looks at another table"
    columns = work.probe.schema()
    if table.schema is None or any(each.kind not in KEPT for each in compare(source=columns, table=table.schema)):
        yield "the table's columns are not those of the source"


def _plain(value: Any) -> Any:
    """The value as JSON types, the same in every process."""
    if is_dataclass(value):
        shown = (each for each in fields(value) if each.repr)
        return {"is": type(value).__name__, **{each.name: _plain(getattr(value, each.name)) for each in shown}}
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, AbstractSet):
        return sorted(json.dumps(_plain(each), sort_keys=True) for each in value)
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if isinstance(value, bool | int | float | None) else str(value)
