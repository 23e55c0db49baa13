"""The commands `status`, `history` and `tasks`, which show what the registry has recorded.

None of them reads rows of a source or table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from tidegate.cli.command import Exclude, Select, Stream
from tidegate.cli.moved import MOVED, OPTIONAL, moved
from tidegate.cli.shell import Shell
from tidegate.cli.tables import Table, count, size, yes
from tidegate.core.display import ahead_of_clock, counted, short_duration
from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from tidegate.core.intervals import Intervals
    from tidegate.core.lateness import Lateness
    from tidegate.core.policies.maintenance import Version
    from tidegate.registry.values import RegisteredPosition, StreamStatus

COLUMNS = (
    "stream",
    "last run",
    "loads",
    "loaded through",
    "verified through",
    "last success",
    "due",
    "lag",
    "quarantined",
    "runs now",
)
MINOR = frozenset({"loads"})
OPTIONAL_HERE = frozenset({"verified through", "due", "lag", "quarantined", "runs now"})
Limit = Annotated[int, Option(min=1, metavar="N", help="Show at most this many, newest first.")]


def status(
    shell: Shell,
    stream: Annotated[str | None, Argument(metavar="STREAM", help="Show the interval ledger of this stream.")] = None,
    late: Annotated[
        bool, Option("--late", help="Show how late the stream's rows arrive, as measured by its runs.")
    ] = False,
    select: Select = None,
    exclude: Exclude = None,
) -> int:
    """Shows how far streams are, or the intervals of one.

    Freshness, lag behind the log, loaded_through, verified_through, gaps, what is due or late, rows in quarantine, the
    last error, and which process is at work. Times are in UTC.
    """
    if late and stream is None:
        raise ConfigError("--late needs exactly one stream", hint="Name it: `tidegate status --late STREAM`.")
    if stream is not None and (select or exclude):
        raise ConfigError(
            "a stream was named, so --select and --exclude would have no effect",
            hint=f"Leave them out: `tidegate status {stream}`. Without a name they choose streams of the overview.",
        )
    with shell.project() as project:
        if stream is not None and late:
            return _late(shell, stream, project.lateness(stream))
        if stream is not None:
            return _intervals(shell, stream, project.intervals(stream))
        streams = project.status(select=select, exclude=exclude)
    if shell.as_json:
        shell.document({"streams": [stream.to_dict() for stream in streams]})
        return 0
    shell.table(Table(columns=COLUMNS, rows=tuple(_row(each) for each in streams), optional=OPTIONAL_HERE, minor=MINOR))
    for each in streams:
        for text in _remarks(each):
            shell.result(f"{each.stream}: {text}")
    return 0


def _row(each: StreamStatus) -> tuple[str, ...]:
    return (
        each.stream,
        each.last_outcome or "never",
        count(each.sequence),
        each.loaded_through or "-",
        each.verified_through or "-",
        moment(each.last_success_at),
        _due(each),
        _lag(each),
        count(each.rows_quarantined),
        each.held_by or "-",
    )


def _remarks(each: StreamStatus) -> list[str]:
    """What a cell has no room for."""
    found = []
    if each.last_error:
        found.append(_error_text(each.last_error))
    if each.lag_error:
        found.append(f"its lag is unknown: {_error_text(each.lag_error)}")
    found += _source_remarks(each)
    if each.problem:
        found.append(f"not all of it is known: {_error_text(each.problem)}")
    if each.late:
        since = each.last_success_at or each.registered_at
        found.append(f"late: no run went well since {moment(since)}, and a whole turn of its schedule was missed")
    if each.rows_ahead:
        found.append(ahead_of_clock(each.rows_ahead))
    if each.rows_quarantined:
        rows = counted(each.rows_quarantined, "row", "wait")
        found.append(f"{rows} in quarantine; `tidegate quarantine show {each.stream}` shows them")
    found += [
        f"{failed.hook} has failed since {moment(failed.since)}: {failed.error.get('message')}"
        for failed in each.hooks_failed
    ]
    return [*found, *(f"{gap.known} {gap.label}" for gap in each.gaps)]


def _due(each: StreamStatus) -> str:
    """`late`, `due`, or when it will be."""
    if each.due_at is None:
        return "-"
    if each.late:
        return "late"
    return "due" if each.due_at <= datetime.now(UTC) else moment(each.due_at)


def _late(shell: Shell, stream: str, found: Lateness) -> int:
    if shell.as_json:
        shell.document({"stream": stream, **found.to_dict()})
        return 0
    if not found.loads:
        shell.result(f"{stream}: no load of this stream had a lookback; give its strategy a `lookback:`")
        return 0
    ends = ((name, getattr(found, name)) for name in ("p50", "p95", "p99", "lookback"))
    rows = (
        ("loads", count(found.loads)),
        ("rows", count(found.rows)),
        ("late rows", count(found.late_rows)),
        *((name, "-" if value is None else short_duration(timedelta(seconds=value))) for name, value in ends),
    )
    shell.table(Table(columns=("", "behind the position by at most"), rows=tuple(rows)))
    return 0


def _intervals(shell: Shell, stream: str, found: Intervals) -> int:
    if shell.as_json:
        parts = [part.to_dict() for part in found.parts]
        shell.document({"stream": stream, "intervals": parts, "gaps": [part.to_dict() for part in found.gaps]})
        return 0
    rows = ((part.after or "-", part.upto, str(part.known), count(part.rows)) for part in found.parts)
    columns = ("after", "up to", "state", "rows")
    shell.table(Table(columns=columns, rows=tuple(rows)), none=f"{stream}: no intervals have been loaded yet")
    return 0


def history(
    shell: Shell,
    stream: Stream,
    limit: Limit = 20,
    versions: Annotated[
        bool, Option("--versions", help="Show the versions of the table instead, and loads whose version has expired.")
    ] = False,
) -> int:
    """Lists a stream's runs, or its table's versions."""
    with shell.project() as project:
        if versions:
            return _versions(shell, stream, project.versions(stream)[:limit], project.state.loads(stream, limit))
        runs = project.history(stream, limit)
    if shell.as_json:
        shell.document({"stream": stream, "runs": [run.to_dict() for run in runs]})
        return 0
    rows = (
        (
            moment(run.started_at),
            *moved({**(run.details or {}), "outcome": run.outcome}),
            run.run_id[:12],
            _error_text(run.error) if run.error else "-",
        )
        for run in runs
    )
    shell.table(
        Table(
            columns=("started", *MOVED, "run", "error"),
            rows=tuple(rows),
            optional=OPTIONAL | frozenset({"error"}),
            minor=frozenset({"run"}),
        ),
        none=f"{stream}: no runs yet; `tidegate run {stream}` starts one",
    )
    return 0


def _versions(shell: Shell, stream: str, found: Sequence[Version], loads: Sequence[RegisteredPosition]) -> int:
    """The versions, then the loads whose version has expired: `state rewind` takes them, too."""
    shown = {each.load for each in found}
    expired = [each for each in loads if each.position.sequence not in shown]
    if shell.as_json:
        listed = [{**asdict(each), "made_at": each.made_at.isoformat()} for each in found]
        expired_versions = [
            {"load": each.position.sequence, "recorded_at": each.recorded_at.isoformat()} for each in expired
        ]
        shell.document({"stream": stream, "versions": listed, "expired": expired_versions})
        return 0
    rows = [
        (
            each.id,
            moment(each.made_at),
            count(each.load),
            count(each.rows),
            each.operation or "-",
            yes(value=each.readable),
            "yes" if each.current else "-",
        )
        for each in found
    ]
    rows += [
        ("expired", moment(each.recorded_at), count(each.position.sequence), "-", "-", "no", "-") for each in expired
    ]
    columns = ("version", "made", "load", "rows", "by", "readable", "current")
    shell.table(Table(columns=columns, rows=tuple(rows)), none=f"{stream}: no versions yet")
    return 0


def tasks(
    shell: Shell,
    stream: Annotated[str | None, Argument(metavar="STREAM", help="Only this stream.")] = None,
    limit: Limit = 100,
) -> int:
    """Lists the last tasks: what was loaded, by slice."""
    with shell.project() as project:
        found = project.tasks(stream, limit)
    if shell.as_json:
        shell.document({"tasks": [task.to_dict() for task in found]})
        return 0
    rows = (
        (
            str(task.task_id),
            task.stream,
            task.task_type,
            str(task.status_cd),
            moment(task.start_ts),
            moment(task.finish_ts),
            task.extract_group_id or "-",
        )
        for task in found
    )
    columns = ("task", "stream", "type", "status", "started", "finished", "slice")
    shell.table(Table(columns=columns, rows=tuple(rows)), none="no tasks yet")
    return 0


def moment(value: datetime | None) -> str:
    """Formats a time in UTC, to the second."""
    return "-" if value is None else f"{value:%Y-%m-%d %H:%M:%S}Z"


def _lag(stream: StreamStatus) -> str:
    known = [counted(stream.lag_events, "event")] if stream.lag_events is not None else []
    known += [f"{stream.lag_seconds} s"] if stream.lag_seconds is not None else []
    known += [f"slot {size(stream.slot.behind)}"] if stream.slot is not None else []
    return ", ".join(known) or "-"


def _source_remarks(each: StreamStatus) -> list[str]:
    """What is wrong with the slot and the connector of a log."""
    found = [each.slot.warning] if each.slot is not None and each.slot.warning else []
    if each.connector is not None and each.connector.state != "RUNNING":
        reason = f": {each.connector.reason}" if each.connector.reason else ""
        found.append(f"connector {each.connector.name} is {each.connector.state}{reason}")
    return found


def _error_text(error: Any) -> str:
    return f"{error.get('code')}: {error.get('message')}"
