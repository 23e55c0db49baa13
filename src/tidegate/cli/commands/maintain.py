"""The commands `maintain` and `rollback`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Option

from tidegate.cli.command import Exclude, Select, Stream, Streams
from tidegate.cli.commands.status import moment
from tidegate.cli.shell import Shell
from tidegate.cli.tables import Table, count, size
from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from tidegate.engine.maintenance.maintain import FinishedStep, StreamUpkeep, TableUpkeep
    from tidegate.engine.maintenance.measured import QueryTime


def maintain(
    shell: Shell,
    streams: Streams = None,
    select: Select = None,
    exclude: Exclude = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Show what would be done, without changing anything or starting Spark.")
    ] = False,
    force: Annotated[
        bool, Option("--force", help="Run every step that has something to do, even below its threshold.")
    ] = False,
    allow_deletes: Annotated[
        bool, Option("--allow-deletes", help="Let `retain:` drop any number of rows, this once.")
    ] = False,
) -> int:
    """Keeps tables small and fast.

    Drops rows that `retain:` no longer keeps, compacts files, applies deletes, rewrites manifests, removes old versions
    and orphan files. Positions stay.
    """
    with shell.project() as project:
        from tidegate.cli.progress import progress  # noqa: PLC0415 - it imports the engine

        with progress(shell, with_json=False) as listener:
            report = project.maintain(
                *(streams or ()),
                select=select,
                exclude=exclude,
                dry_run=dry_run,
                force=force,
                allow_deletes=allow_deletes,
                on_event=listener,
            )
    if shell.as_json:
        shell.document(report.to_dict())
        return report.exit_code
    columns = ("stream", "outcome", "table", "steps", "files", "bytes", "older files", "older bytes")
    shell.table(Table(columns=columns, rows=tuple(row for one in report.streams for row in _rows(one))))
    for one in report.streams:
        for table in one.tables:
            if table.steps:
                shell.result(f"{table.table}: {'; '.join(map(_step_text, table.steps))}")
            if table.query:
                shell.result(f"{table.table}: {_query_text(table.query)}")
        if one.error:
            about = "" if repr(one.stream) in one.error.message else f"{one.stream}: "
            shell.problem(code=one.error.code, message=about + one.error.message, hint=one.error.hint)
    return report.exit_code


def rollback(
    shell: Shell,
    stream: Stream,
    to: Annotated[str, Option(metavar="VERSION|TIME", help="The version, or a time such as 2025-03-01T09:00:00Z.")],
    yes: Annotated[bool, Option("--yes", help="Confirm that the table goes back to older rows.")] = False,
) -> int:
    """Rolls a table back to an older version.

    Rows and position go back together; the next run continues from there.
    """
    with shell.project() as project:
        if not yes:
            project.streams(stream)
            raise ConfigError(
                f"a rollback hides rows of stream {stream!r} from readers",
                hint=f"Add --yes to confirm; `tidegate history {stream} --versions` lists the versions.",
            )
        done = project.rollback(stream, to)
    if shell.as_json:
        shell.document(done.to_dict())
        return 0
    at = moment(done.version.made_at)
    shell.result(f"{stream}: shows version {done.version.id} of {at} again, after load {done.version.load}")
    return 0


def _step_text(done: FinishedStep) -> str:
    did = f": {done.did}" if done.did else ""
    return f"{done.step}{did} ({done.reason})"


def _query_text(query: QueryTime) -> str:
    change = f"{abs(query.improvement):.0f} % {'less' if query.improvement >= 0 else 'more'}"
    return (
        f"the measured query took {query.before:.2f} s before and {query.after:.2f} s after, {change} ({query.engine})"
    )


def _rows(one: StreamUpkeep) -> list[tuple[str, ...]]:
    """A row a table; what it takes up before and after, the files that readers open apart from all others."""
    rows = [
        (
            one.stream,
            one.outcome,
            table.table,
            ", ".join(str(done.step) for done in table.steps) or "-",
            *(_change(table, name) for name in ("files", "bytes", "older_files", "older_bytes")),
        )
        for table in one.tables
    ]
    return rows or [(one.stream, one.outcome, "-", "-", "-", "-", "-", "-")]


def _change(table: TableUpkeep, name: str) -> str:
    values = [getattr(usage, name) if usage else None for usage in (table.before, table.after)]
    if None in values:
        return "-"
    before, after = map(size if name.endswith("bytes") else count, values)
    return before if before == after else f"{before} -> {after}"
