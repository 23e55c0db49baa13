"""The command `verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Option

from tidegate.cli.command import Exclude, Select, Streams
from tidegate.cli.shell import Shell
from tidegate.cli.tables import Table, count, seconds, yes
from tidegate.core.bucketing import Level
from tidegate.core.display import ahead_of_clock
from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from tidegate.engine.verify import Verification


def verify(
    shell: Shell,
    streams: Streams = None,
    select: Select = None,
    exclude: Exclude = None,
    level: Annotated[
        Level, Option(help="What to compare: row counts, fingerprints, or single rows to find those that differ.")
    ] = Level.CHECKSUM,
    repair: Annotated[bool, Option("--repair", help="Reload only the rows that differ, then verify them.")] = False,
    allow_deletes: Annotated[
        bool, Option("--allow-deletes", help="Allow the repair to delete any number of rows; this is recorded.")
    ] = False,
) -> int:
    """Verifies that tables equal their sources.

    Exit code 3 if one differs.
    """
    if allow_deletes and not repair:
        raise ConfigError(
            "--allow-deletes is for a repair, and nothing is to be repaired", hint="Add --repair, or leave it out."
        )
    with shell.project() as project:
        from tidegate.cli.progress import progress  # noqa: PLC0415 - it imports the engine

        with progress(shell, with_json=False) as listener:
            report = project.verify(
                *(streams or ()),
                select=select,
                exclude=exclude,
                level=level,
                repair=repair,
                allow_deletes=allow_deletes,
                on_event=listener,
            )
    if shell.as_json:
        shell.document(report.to_dict())
        return report.exit_code
    columns = ("stream", "equal", "source rows", "table rows", "slices differ", "rows differ", "repaired", "time")
    shell.table(Table(columns=columns, rows=tuple(_row(one) for one in report.streams)))
    for one in report.streams:
        _tell(shell, one)
    return report.exit_code


def _tell(shell: Shell, one: Verification) -> None:
    """What is to be known of one stream beside its line in the table."""
    if one.columns_not_covered:
        shell.result(f"note: {one.stream}: not covered by the fingerprint: {', '.join(one.columns_not_covered)}")
    if one.rows_ahead:
        shell.result(f"note: {one.stream}: {ahead_of_clock(one.rows_ahead)}")
    if one.rows_quarantined:
        shell.result(
            f"note: {one.stream}: {count(one.rows_quarantined)} source rows are in quarantine; "
            f"`tidegate quarantine show {one.stream}`"
        )
    if one.equal is False:
        repairs = f"`tidegate verify {one.stream} --repair` repairs"
        counts = f"`tidegate verify {one.stream} --level rows` counts the rows that differ, {repairs} them."
        shell.problem(
            code="different",
            message=f"{one.stream}: the table differs from its source",
            hint=counts if one.rows_different is None else f"{repairs} the rows that differ.",
        )
    if one.error:
        about = "" if repr(one.stream) in one.error.message else f"{one.stream}: "
        shell.problem(code=one.error.code, message=about + one.error.message, hint=one.error.hint)


def _row(one: Verification) -> tuple[str, ...]:
    numbers = (one.source_rows, one.target_rows, one.slices_different, one.rows_different, one.repaired_rows)
    return (one.stream, yes(value=one.equal), *(count(number) for number in numbers), seconds(one.seconds))
