"""The commands `quarantine list|show|replay`, for rows that failed a check.

Only `show` prints values of rows.
"""

from __future__ import annotations

from typing import Annotated

from typer import Option

from tidegate.cli.command import Exclude, Select, Stream, Streams
from tidegate.cli.shell import Shell
from tidegate.cli.tables import Table, count
from tidegate.core.display import counted


def listed(shell: Shell, streams: Streams = None, select: Select = None, exclude: Exclude = None) -> int:
    """Lists quarantined rows by stream and failed check."""
    with shell.project() as project:
        found = project.quarantine(*(streams or ()), select=select, exclude=exclude).waiting()
    if shell.as_json:
        shell.document({"streams": [one.to_dict() for one in found]})
        return 0
    rows = [(one.stream, rule, count(number), one.table) for one in found for rule, number in one.rules.items()]
    shell.table(Table(columns=("stream", "rule", "rows", "table"), rows=tuple(rows)), none="no rows in quarantine")
    return 0


def show(
    shell: Shell, stream: Stream, limit: Annotated[int, Option(min=1, help="Show at most this many rows.")] = 20
) -> int:
    """Shows quarantined rows with their values."""
    with shell.project() as project:
        found = project.quarantine(stream).show(limit)
    if shell.as_json:
        shell.document({"stream": stream, "rows": found})
        return 0
    rows = tuple(
        (str(row["load"]), row["rule"], row["reason"] or "", row["origin"] or "", row["row"] or row["raw"] or "")
        for row in found
    )
    columns = ("load", "rule", "reason", "origin", "row")
    shell.table(Table(columns=columns, rows=rows), none=f"{stream}: no rows in quarantine")
    return 0


def replay(shell: Shell, stream: Stream) -> int:
    """Checks quarantined rows again, and loads those that pass now.

    Exit code 4 if rows still fail a check.
    """
    with shell.project() as project:
        done = project.quarantine(stream).replay()
    if shell.as_json:
        shell.document(done.to_dict())
        return done.exit_code
    shell.result(
        f"{done.stream}: {counted(done.rows, 'row')} loaded, {count(done.superseded)} superseded by newer rows, "
        f"{count(done.waiting)} still in quarantine"
    )
    if done.waiting:
        broken = ", ".join(f"{rule} ({counted(number, 'row')})" for rule, number in done.rules.items())
        shell.problem(
            code="check_failed",
            message=f"{done.stream}: rows still fail {broken}",
            hint=f"`tidegate quarantine show {done.stream}` shows them; correct the rows at the source, or correct the "
            f"check.",
        )
    return done.exit_code
