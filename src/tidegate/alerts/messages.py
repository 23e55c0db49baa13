"""What a message says: what, since when, why, and the command to run."""

from __future__ import annotations

from datetime import datetime

from tidegate.core.incidents import Alarm, Incident

TITLES = {
    "run_failed": "run failed",
    "late": "late",
    "lag_over": "behind its log",
    "no_data_for": "no data",
    "failed_within": "a load failed",
    "schema_changed": "columns changed",
    "checks_failed": "checks failed",
    "quarantine_over": "rows in quarantine",
    "verification_differs": "table and source differ",
    "delete_guard": "too many deletes, load stopped",
    "maintenance_failed": "maintenance failed",
    "hook_failed": "hook failed after a load",
    "query_slower": "queries are slower than usual",
}


def title_of(kind: str, incident: Incident) -> str:
    """One line: the stream and what happened."""
    what = TITLES[incident.rule.partition(":")[0]]
    words = {"opened": what, "repeated": f"still: {what}", "recovered": f"recovered: {what}"}
    return f"{incident.stream}: {words[kind]}"


def body_of(kind: str, incident: Incident, alarm: Alarm | None, where: str, until: datetime) -> str:
    """The message; of a recovery without a command or hint, since there is nothing to do.

    Args:
        where: the table and the project.
        until: of a recovery when it was one.
    """
    lines = [f"stream: {incident.stream}, {where}"]
    if kind == "recovered":
        why, *_ = incident.why.splitlines()
        lines += [f"since: {_moment(incident.opened_at)}, until {_moment(until)}", f"it was: {why}"]
        return "\n".join(lines)
    since = alarm.since if alarm is not None and alarm.since is not None else incident.opened_at
    lines += [f"since: {_moment(since)}", f"why: {incident.why}"]
    if alarm is not None:
        lines.append(f"run: {alarm.command}")
    return "\n".join(lines)


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}Z"
