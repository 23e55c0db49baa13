"""What the pages of a stream and of a run show beside its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from markupsafe import Markup

from tidegate.config import StreamConfig
from tidegate.config.options import KIND
from tidegate.core.intervals import Intervals, IntervalState
from tidegate.engine.assemble.assemble import recorded_place
from tidegate.engine.quarantine.waiting import waiting_rows
from tidegate.engine.table_view import TableView
from tidegate.errors import TidegateError
from tidegate.registry import recent
from tidegate.registry.reader import RegistryReader
from tidegate.service.web import charts, ledger_calendar
from tidegate.service.web.facts import Line
from tidegate.service.web.ledger_calendar import DAYS, HOUR_DAYS, TEXT, Calendar, Part, counted
from tidegate.service.web.port import ServicePort
from tidegate.service.web.rendering import number, size

CELLS = 1000
SQUARES = (IntervalState.DONE, IntervalState.UNVERIFIED, IntervalState.STALE, IntervalState.FAILED, IntervalState.EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heat:
    """What is known of a table's parts, as a picture.

    Args:
        note: what it shows, and how many parts are in which state.
        earlier, later: the last day of the calendar before or after this one; None where there is none.
    """

    picture: Markup
    note: str
    earlier: date | None = None
    later: date | None = None


def heat(registry: RegistryReader, uid: str, until: str = "") -> Heat | None:
    """The interval ledger, or the partitions: a calendar where they are times, else a strip; None where none are kept.

    Args:
        until: the last day that is shown, in ISO 8601; the last one that is known unless given.
    """
    found = registry.intervals(uid) if uid else Intervals()
    day = _day(until)
    if found.parts:
        shown = [*found.parts, *found.gaps]
        cells = [(f"{each.label}: {TEXT[each.known]}, {number(each.rows)} rows", each.known) for each in shown]
        return _heat(ledger_calendar.of_intervals(found, day), cells, "intervals of the cursor")
    kept = registry.ask(lambda connection: recent.partitions(connection, uid, CELLS)) if uid else []
    if not kept:
        return None
    parts = [Part(label=label, rows=rows, known=known) for label, rows, known in kept]
    cells = [(f"{each.label}: {TEXT[each.known]}, {number(each.rows)} rows", each.known) for each in parts]
    period = registry.ask(lambda connection: recent.checksum_period(connection, uid))
    return _heat(ledger_calendar.of_parts(parts, period, day) if period else None, cells, "partitions")


def _heat(found: Calendar | None, cells: Sequence[tuple[str, IntervalState]], what: str) -> Heat:
    if found is None:
        shown = cells[-CELLS:]
        note = f"{len(shown):,} {what}: {counted(known for _, known in shown)}"
        return Heat(picture=charts.strip(shown, note), note=note)
    unit = "hours" if found.hourly else "days"
    note = f"{found.first} to {found.last}, in {unit}: {counted(cell.known for cell in found.cells)}"
    length = timedelta(HOUR_DAYS if found.hourly else DAYS)
    return Heat(
        picture=charts.calendar(found, note),
        note=note,
        earlier=found.first - timedelta(1) if found.earlier else None,
        later=found.last + length if found.later else None,
    )


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def table(view: TableView | None) -> list[tuple[str, str]]:
    """The facts of a table by their names."""
    if view is None:
        return [("Metadata", "there is no table yet, or it cannot be read")]
    facts = view.facts
    average = facts.bytes / facts.files if facts.bytes and facts.files else None
    return [
        ("Format", facts.format),
        ("Rows", number(view.rows)),
        ("Files", f"{number(facts.files)}, on average {size(average)}"),
        ("Size", size(facts.bytes)),
        ("Files of deletes", number(facts.delete_files)),
        ("Versions", f"{number(view.versions)}, now {view.version or '-'}"),
        ("Partitioned by", ", ".join(facts.partition_by) or "-"),
        ("Sorted by", ", ".join(facts.sort_by) or "-"),
        ("Location", view.location or "-"),
        ("Columns", ", ".join(f"{column.name} {column.type}" for column in view.columns)),
    ]


def rules(entry: StreamConfig) -> list[str]:
    found = []
    for node in entry.checks:
        kind = node.get(KIND)
        options = {name: value.value for name, value in node.items.items() if name != KIND}
        listed = ", ".join(f"{name}: {value}" for name, value in options.items())
        found.append(f"{kind.text() if kind else 'check'} {listed}".strip())
    return found


def waiting(service: ServicePort, line: Line) -> dict[str, int]:
    """The rows that wait in quarantine by the check that they broke; empty where only Spark could tell."""
    place = recorded_place(line.status, service.project.lakes)
    if place is None or not line.status.sequence:
        return {}
    try:
        return waiting_rows(place.format, place.target, place.uid) or {}
    except TidegateError:
        return {}


def samples(service: ServicePort, line: Line, limit: int = 20) -> list[Mapping[str, Any]]:
    """Rows in quarantine with their values; starts Spark where that is not running, and only for who asked for it."""
    if not waiting(service, line):
        return []
    try:
        return list(service.project.quarantine(line.name).show(limit))
    except TidegateError:
        return []


def changes_of_columns(plans: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What the last plans saw of changed columns, newest first."""
    return [
        {
            "at": plan["created"],
            "text": " ".join(str(part) for part in change.values() if part not in (None, "", [], {})),
        }
        for plan in plans
        for change in plan.get("schema_changes") or ()
    ][:20]


def fingerprints(log: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What was compared in a run, with both answers."""
    found = []
    for each in log:
        facts = each["facts"]
        if "source_fingerprint" not in facts and "verified" not in facts and "equal" not in facts:
            continue
        found.append(
            {
                "what": each["what"],
                "slice": each["slice"],
                "equal": facts.get("equal", facts.get("verified")),
                "source": facts.get("source_fingerprint"),
                "table": facts.get("table_fingerprint"),
                "not_covered": facts.get("columns_not_covered") or (),
            }
        )
    return found[:50]
