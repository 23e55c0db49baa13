"""Which tables are proven equal to their sources, for `tidegate proof`: a report to hand to an auditor.

Asks the registry and the tables, never the sources. It never says more than was compared: a load that was verified
proves the rows that it moved, a comparison of whole tables proves the version that it looked at.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar

from tidegate import extras
from tidegate.core.display import Shown, counted, done_by, text_of
from tidegate.core.outcome import Problem
from tidegate.core.ports.format import TableState
from tidegate.core.report import StreamReport
from tidegate.registry import recent
from tidegate.registry.reader import RegistryReader
from tidegate.registry.values import StreamStatus

PLAIN = ("stream", "source", "target", "snapshot", "table_read", "loaded_through")
COMPARISON, REPAIR, ROLLBACK, LOADS = "measure_partition", "repair", "rollback", ("load", "load_partition")


class Proven(StrEnum):
    """What is proven of a table as it is now."""

    EQUAL = "equal"
    MOVED = "moved"
    COUNTED = "counted"
    DIFFERENT = "different"
    CHANGED = "changed"
    UNPROVEN = "unproven"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(Shown):
    """One proof: both sides as they answered.

    Args:
        level: of a whole table `counts`, `checksum` or `rows`; of a load `counts` or `moved`.
        snapshot: the table's version.
        source, table: the fingerprints; None where counts or events were compared, or before they were kept.
        not_covered: the columns of a type that no fingerprint covers; they were not compared.
        excluded: the source's columns that the project does not read.
        quarantined: rows of the source that are in quarantine, not in the table.
        begin: the column and value from which on the table holds the source's rows; None where it holds all.
        then_failed: when a later comparison could not be made, and by which error; the table may be unreadable since.
    """

    at: datetime
    level: str
    equal: bool
    snapshot: str | None
    source: str | None = None
    table: str | None = None
    not_covered: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    quarantined: int = 0
    begin: Mapping[str, Any] | None = None
    then_failed: str | None = None

    @property
    def exceptions(self) -> tuple[str, ...]:
        """What the comparison leaves open, in a few words each."""
        rows = counted(self.quarantined, "row")
        return (
            *([f"{rows} of the source {done_by(self.quarantined, 'are')} in quarantine"] if self.quarantined else ()),
            *([f"only rows from {self.begin['column']} = {self.begin['value']} on"] if self.begin else ()),
            *(f"column {name}: not read" for name in self.excluded),
            *(f"column {name}: no fingerprint" for name in self.not_covered),
            *([self.then_failed] if self.then_failed else ()),
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON types only."""
        lists = {"not_covered": list(self.not_covered), "excluded": list(self.excluded)}
        return {**asdict(self), "at": self.at.isoformat(), **lists}


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamProof(Shown):
    """What is proven of one table.

    Args:
        proven: `equal`: the whole table of this version was compared, or repaired after it, and nothing landed since.
            `moved`: the rows of the last load were compared; `counted`: only their number was. `different`: the last
            comparison found differences that neither a repair nor a load of the whole table has ended. `changed`:
            others have changed or dropped the table since. `unproven`: none of these.
        snapshot: the table's version now; the last one that the registry knows where the table was not read.
        table_read: whether the table itself was asked for its version; else only the registry was.
        position: the source position of the last load.
        whole: the last comparison of the whole table.
        moved: the proof of the last load that was verified.
        repaired_at: the last repair, and the rows that it moved.
    """

    shown: ClassVar[tuple[str, ...]] = ("stream", "proven", "snapshot", "loaded_through", "repaired_rows")

    stream: str
    source: str
    target: str
    proven: Proven
    snapshot: str | None = None
    table_read: bool = False
    loaded_through: str | None = None
    position: Mapping[str, Any] | None = None
    whole: Comparison | None = None
    moved: Comparison | None = None
    repaired_at: datetime | None = None
    repaired_rows: int = 0

    @property
    def error(self) -> Problem | None:
        """Never one: a report says what was recorded."""
        return None

    @property
    def shown_comparison(self) -> Comparison | None:
        """The comparison that `proven` follows from; None where nothing was compared since rows were loaded."""
        if self.proven is Proven.EQUAL and self.whole is not None and not self.whole.equal:
            return replace(self.whole, source=None, table=None)  # those of before the repair
        if self.proven in (Proven.EQUAL, Proven.DIFFERENT):
            return self.whole
        return self.moved if self.proven in (Proven.MOVED, Proven.COUNTED) else None

    @property
    def exceptions(self) -> tuple[str, ...]:
        """What the proof leaves open, in a few words each."""
        found = self.shown_comparison.exceptions if self.shown_comparison is not None else ()
        unread = self.snapshot is not None and not self.table_read
        return (*found, "the table was not read: others may have changed it") if unread else found

    @property
    def proven_at(self) -> datetime | None:
        """When that comparison, or the repair after it, was made."""
        found = self.shown_comparison
        times = [found.at] if found is not None else []
        if self.proven is Proven.EQUAL and self.repaired_at is not None:
            times.append(self.repaired_at)
        return max(times, default=None)

    def to_dict(self) -> dict[str, Any]:
        """JSON types only."""
        return {
            **{name: getattr(self, name) for name in PLAIN},
            "proven": str(self.proven),
            "proven_at": self.proven_at.isoformat() if self.proven_at else None,
            "position": dict(self.position) if self.position is not None else None,
            "whole": self.whole.to_dict() if self.whole else None,
            "moved": self.moved.to_dict() if self.moved else None,
            "repaired_at": self.repaired_at.isoformat() if self.repaired_at else None,
            "repaired_rows": self.repaired_rows,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofReport(StreamReport[StreamProof]):
    """What is proven of each table, at one moment.

    Args:
        version: of Tidegate.
    """

    made_at: datetime
    version: str
    streams: tuple[StreamProof, ...]

    def to_dict(self) -> dict[str, Any]:
        """The document of `proof --json`."""
        streams = [stream.to_dict() for stream in self.streams]
        return {"made_at": self.made_at.isoformat(), "version": self.version, "streams": streams}

    def to_html(self) -> str:
        """A page of its own, without scripts, that prints well."""
        head: tuple[str, ...] = ("stream", "source", "table", "proven", "when", "level", "version", "source position")
        head += ("source fingerprint", "table fingerprint", "except", "repaired rows")
        cells = "".join(f"<th scope=col>{name}</th>" for name in head)
        rows = "".join(_row(stream) for stream in self.streams)
        tables = counted(len(self.streams), "table")
        title = f"Proof of {tables}, {self.made_at:%Y-%m-%d %H:%M:%S} UTC, Tidegate {self.version}"
        return (
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title><style>{STYLE}'
            f"</style><h1>{html.escape(title)}</h1>{LEGEND}<table><thead><tr>{cells}</tr></thead>{rows}</table></html>\n"
        )


STYLE = (
    "body{font:14px system-ui,sans-serif;margin:2rem;color:#1b1f24;background:#fff}table{border-collapse:collapse}"
    "th,td{border:1px solid #c9ced6;padding:.3rem .5rem;text-align:left;vertical-align:top;overflow-wrap:anywhere}"
    "@media print{body{margin:0;font-size:9px}}"
)
LEGEND = (
    "<p><b>equal</b>: the whole table of this version was compared with its source, or repaired, except for what is "
    "named. <b>moved</b>: the rows that the last load moved were compared; <b>counted</b>: only counted. "
    "<b>different</b>: the last comparison found differences that were neither repaired nor followed by a load of the "
    "whole table. <b>changed</b>: others have changed or dropped the table since. <b>unproven</b>: no comparison since "
    "the last rows were loaded.</p>"
)


def proof(
    registry: RegistryReader, streams: Sequence[StreamStatus], tables: Mapping[str, TableState | None], now: datetime
) -> ProofReport:
    """What the registry recorded of proofs of these streams, and whether their tables are still as they were.

    Args:
        tables: by the stream's name; None or absent where the table was not read.
    """
    uids = [each.uid for each in streams]
    kinds = (COMPARISON, REPAIR, *LOADS)
    tasks = registry.ask(lambda connection: recent.last_proofs(connection, uids, kinds))
    failed = registry.ask(lambda connection: recent.failed_comparisons(connection, uids))
    back = registry.ask(lambda connection: recent.last_tasks(connection, uids, ROLLBACK))
    positions = registry.ask(lambda connection: recent.newest_positions(connection, uids))
    compared = {uid: each[COMPARISON] for uid, each in tasks.items() if COMPARISON in each}
    differed = {uid: task.finish_ts for uid, task in compared.items() if not task.result_payload["equal"]}
    renewed = registry.ask(lambda connection: recent.renewed(connection, differed))
    found = (
        _proof(
            each,
            positions.get(each.uid),
            {**tasks.get(each.uid, {}), **({ROLLBACK: back[each.uid]} if each.uid in back else {})},
            tables.get(each.stream),
            renewed=each.uid in renewed,
            failed=failed.get(each.uid),
        )
        for each in streams
    )
    return ProofReport(made_at=now, version=extras.version(), streams=tuple(found))


def _proof(  # noqa: PLR0913 - what it follows from
    status: StreamStatus,
    position: tuple[Mapping[str, Any], str | None] | None,
    tasks: Mapping[str, Any],
    table: TableState | None,
    *,
    renewed: bool,
    failed: Any,
) -> StreamProof:
    loads = [tasks[kind] for kind in LOADS if kind in tasks]
    load = max(loads, key=lambda task: task.task_id, default=None)
    if load is not None and ROLLBACK in tasks and tasks[ROLLBACK].task_id > load.task_id:
        load = None  # it proves rows that the table shows no longer
    whole, repair = tasks.get(COMPARISON), tasks.get(REPAIR)
    newest = max((task.task_id for task in (*loads, whole, repair) if task is not None), default=0)
    failure = _failure(failed) if failed is not None and failed.task_id > newest else None
    compared = None if whole is None else _comparison(whole, failure, equal=bool(whole.result_payload["equal"]))
    mended = repair is not None and (whole is None or repair.task_id > whole.task_id)
    complete = mended and repair is not None and not repair.result_payload.get("left")
    document, snapshot = position or (None, None)
    moved = None if load is None else _comparison(load, failure, equal=True)
    return StreamProof(
        stream=status.stream,
        source=status.source,
        target=status.target,
        proven=_state(
            status,
            snapshot,
            compared,
            moved,
            table,
            rolled_back=ROLLBACK in tasks and load is None,
            repaired=str(repair.result_payload.get("snapshot")) if complete and repair is not None else None,
            renewed=renewed,
        ),
        snapshot=table.snapshot if table is not None else snapshot,
        table_read=table is not None,
        loaded_through=status.loaded_through,
        position=document,
        whole=compared,
        moved=moved,
        repaired_at=repair.finish_ts if repair is not None else None,
        repaired_rows=int(repair.result_payload.get("rows") or 0) if repair is not None else 0,
    )


def _state(  # noqa: PLR0913 - what it follows from
    status: StreamStatus,
    snapshot: str | None,
    whole: Comparison | None,
    moved: Comparison | None,
    table: TableState | None,
    *,
    rolled_back: bool,
    repaired: str | None,
    renewed: bool,
) -> Proven:
    """What is proven now.

    Args:
        rolled_back: the table shows an older version than the last load that was compared.
        repaired: the version of a repair that left nothing, and came after the last comparison.
        renewed: a run has taken all of the source since.
    """
    if whole is not None and not whole.equal and repaired is None and not renewed:
        return Proven.DIFFERENT
    versions = {repaired, whole.snapshot if whole is not None and whole.equal and whole.level != "counts" else None}
    if table is not None and table.snapshot is not None and table.snapshot in versions:
        return Proven.EQUAL
    if table is not None and not table.since_load.same_rows:
        return Proven.CHANGED
    if snapshot is not None and snapshot in versions:
        return Proven.EQUAL
    if rolled_back or not status.verified:
        return Proven.UNPROVEN
    return Proven.COUNTED if moved is not None and moved.level == "counts" else Proven.MOVED


def _failure(task: Any) -> str:
    error = (task.result_payload or {}).get("error") or {}
    return f"a comparison at {task.finish_ts:%Y-%m-%d %H:%M}Z failed: {error.get('code')}: {error.get('message')}"


def _comparison(task: Any, then_failed: str | None, *, equal: bool) -> Comparison:
    facts = task.result_payload
    level = str(facts.get("level") or "moved")
    compared = level != "counts"  # what was only counted has no fingerprint
    return Comparison(
        at=task.finish_ts,
        level=level,
        equal=equal,
        snapshot=facts.get("snapshot"),
        source=facts.get("source_fingerprint") if compared else None,
        table=facts.get("table_fingerprint") if compared else None,
        not_covered=tuple(facts.get("columns_not_covered") or ()),
        excluded=tuple(facts.get("columns_excluded") or ()),
        quarantined=int(facts.get("rows_quarantined") or 0),
        begin=facts.get("begin"),
        then_failed=then_failed,
    )


def _row(stream: StreamProof) -> str:
    shown = stream.shown_comparison
    facts: tuple[Any, ...] = (stream.stream, stream.source, stream.target, str(stream.proven), stream.proven_at)
    facts += (shown.level if shown else None, stream.snapshot, stream.loaded_through)
    facts += (shown.source if shown else None, shown.table if shown else None)
    facts += ("; ".join(stream.exceptions) or None, stream.repaired_rows or None)
    return f"<tr>{''.join(f'<td>{html.escape(text_of(fact))}</td>' for fact in facts)}</tr>"
