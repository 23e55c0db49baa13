"""The command `checksum-tasks`, which asks what a run of a connection's checksum streams would do now.

Moves nothing and never starts Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from tidegate.cli.shell import Shell
from tidegate.cli.tables import Table, count
from tidegate.core.display import counted
from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from tidegate.engine.checksum_tasks import ChecksumTasks, Identifiers

FAILED = 1


def checksum_tasks(
    shell: Shell,
    connection: Annotated[str, Argument(metavar="CONNECTION", help="Name of the connection.")],
    streams: Annotated[list[str] | None, Argument(metavar="STREAM", help="Names of its checksum streams.")] = None,
    table: Annotated[
        list[str] | None, Option("--table", metavar="SCHEMA.TABLE", help="Streams that read this table. Repeatable.")
    ] = None,
    force: Annotated[bool, Option("--force", help="List every checksum stream of the connection.")] = False,
    validate_only: Annotated[bool, Option("--validate-only", help="Record nothing in the registry.")] = False,
    skipped: Annotated[bool, Option("--skipped", help="List the partitions that are equal, too.")] = False,
) -> int:
    """Lists the partitions that a run would load now.

    Of each stream of a connection: the partition, what a run would do with it, and what prevents it.
    """
    with shell.project() as project:
        wanted = _identifiers(streams, table, force=force)
        found = project.checksum_tasks(connection, wanted, force=force, validate_only=validate_only)
    exit_code = FAILED if any(stream.error for stream in found.streams) else 0
    if shell.as_json:
        shell.document({**found.to_dict(), "exit_code": exit_code})
    else:
        _tell(shell, found, skipped=skipped)
    return exit_code


def _identifiers(streams: list[str] | None, tables: list[str] | None, *, force: bool) -> Identifiers | None:
    """The streams that are named, or the tables by their schema. Raises ConfigError for both or neither."""
    from tidegate.core.ids import join_name, split_name  # noqa: PLC0415 - only for tables

    if len([given for given in (streams, tables, force) if given]) != 1:
        raise ConfigError(
            "checksum-tasks needs one of names of streams, --table and --force",
            hint="Name streams; --force asks for every checksum stream of the connection, which reads every row.",
        )
    if not tables:
        return streams
    wanted: dict[str, list[str]] = {}
    for name in tables:
        try:
            *schema, table = split_name(name)
        except ValueError:
            schema = []
        if not schema:
            raise ConfigError(f"--table {name!r} is not SCHEMA.TABLE", hint="For example `--table public.sales`.")
        wanted.setdefault(join_name(schema), []).append(table)
    return wanted


def _tell(shell: Shell, found: ChecksumTasks, *, skipped: bool) -> None:
    rows = (
        (stream.stream, task.extract_group_id or "-", task.action or "-", count(task.rows), task.obstacle or "-")
        for stream in found.streams
        for task in (*stream.tasks, *(stream.skipped if skipped else ()))
    )
    shell.table(Table(columns=("stream", "partition", "action", "rows", "not inserted due to"), rows=tuple(rows)))
    equal = sum(len(stream.skipped) for stream in found.streams)
    skips = f", {counted(equal, 'partition')} skipped" if equal else ""
    shell.result(f"{found.tasks_generated} tasks generated, {found.tasks_inserted} inserted{skips}")
    for stream in found.streams:
        for reason in dict.fromkeys(task.reason for task in stream.tasks if task.reason):
            shell.result(f"{stream.stream}: {reason}")
        for note in stream.notes:
            shell.result(f"note: {stream.stream}: {note}")
        if stream.error:
            shell.problem(code=stream.error.code, message=stream.error.message, hint=stream.error.hint)
