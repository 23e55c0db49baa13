"""What the pages of a stream and of a run show beside its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from tidegate.config import StreamConfig
from tidegate.config.options import KIND
from tidegate.engine.assemble.assemble import recorded_place
from tidegate.engine.quarantine.waiting import waiting_rows
from tidegate.engine.table_view import TableView
from tidegate.errors import TidegateError
from tidegate.registry import recent
from tidegate.registry.reader import RegistryReader
from tidegate.service.web import charts
from tidegate.service.web.facts import Line
from tidegate.service.web.port import ServicePort
from tidegate.service.web.rendering import moment, number, size

CELLS = 1000


def heat(registry: RegistryReader, uid: str) -> tuple[Markup | None, str]:
    """The interval ledger, or the partitions, as a map of squares; and what it shows."""
    parts = registry.intervals(uid).parts if uid else ()
    if parts:
        cells = [(f"{part.label} {number(part.rows)} rows", str(part.known)) for part in parts[-CELLS:]]
        return charts.heat_map(cells, "Intervals of the cursor"), _limited("intervals", len(cells), len(parts))
    found = registry.ask(lambda connection: recent.partitions(connection, uid, CELLS + 1)) if uid else []
    if not found:
        return None, ""
    cells = [(f"{label}: {number(rows)} rows, {moment(at)}", "done") for label, rows, at in found[:CELLS]]
    return charts.heat_map(cells, "Partitions as they were loaded"), _limited("partitions", len(cells), len(found))


def _limited(what: str, shown: int, there: int) -> str:
    return f"{shown:,} {what}" if shown == there else f"{shown:,} of {what}; there are more"


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
    """The checks of a stream as the project names them."""
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
