"""The commands `proof` and `savings`: what is proven, and what was not read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from tidegate.cli.command import Exclude, Select, Streams
from tidegate.cli.commands.status import moment
from tidegate.cli.shell import Shell
from tidegate.cli.tables import Table, count, seconds, size
from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from tidegate.engine.proof import StreamProof
    from tidegate.registry.values import PartitionDay

COLUMNS = ("stream", "proven", "when", "level", "version", "loaded through", "except", "repaired")


def proof(
    shell: Shell,
    streams: Streams = None,
    select: Select = None,
    exclude: Exclude = None,
    html: Annotated[
        Path | None, Option(metavar="FILE", help="Write the report to this file, as one HTML page.")
    ] = None,
) -> int:
    """Shows which tables are proven equal to their sources, when and at which level.

    A report for auditors: table version, source position, both fingerprints, and the columns that no fingerprint
    covers. Asks registry and tables; `verify` compares tables with their sources.
    """
    with shell.project() as project:
        report = project.proof(*(streams or ()), select=select, exclude=exclude)
    if html is not None:
        try:
            html.write_text(shell.redact(report.to_html()), encoding="utf-8")
        except OSError as error:
            raise ConfigError(
                f"{html} cannot be written: {error.strerror}", hint="Name another file: `tidegate proof --html FILE`."
            ) from error
    if shell.as_json:
        shell.document(report.to_dict())
        return 0
    shell.table(Table(columns=COLUMNS, rows=tuple(map(_row, report.streams))))
    if html is not None:
        shell.result(f"wrote {html}")
    return 0


def _row(each: StreamProof) -> tuple[str, ...]:
    shown = each.shown_comparison
    return (
        each.stream,
        str(each.proven),
        moment(each.proven_at),
        shown.level if shown else "-",
        each.snapshot or "-",
        each.loaded_through or "-",
        "; ".join(each.exceptions) or "-",
        count(each.repaired_rows) if each.repaired_rows else "-",
    )


def savings(
    shell: Shell,
    streams: Streams = None,
    select: Select = None,
    exclude: Exclude = None,
    days: Annotated[int, Option(min=1, metavar="N", help="Look at the runs of this many days.")] = 30,
    by_day: Annotated[
        bool, Option("--by-day", help="Show the partitions that were loaded and skipped on each day.")
    ] = False,
) -> int:
    """Shows what the runs read, against a full reload in place of each of them.

    An estimate: a reload would have read the rows that the table has now.
    """
    with shell.project() as project:
        report = project.savings(*(streams or ()), days=days, select=select, exclude=exclude)
    if shell.as_json:
        shell.document(report.to_dict())
        return 0
    if by_day:
        shell.table(_by_day(report.days), none="no stream that is loaded by checksum ran in these days")
        return 0
    rows = (
        (
            each.stream,
            count(each.runs),
            count(each.rows_read),
            count(each.rows_full),
            size(each.bytes_read),
            size(each.bytes_full),
            seconds(each.seconds),
            seconds(each.seconds_full),
        )
        for each in report.streams
    )
    columns = ("stream", "runs", "rows read", "rows of reloads", "bytes read", "of reloads", "time", "of reloads")
    shell.table(Table(columns=columns, rows=tuple(rows)))
    return 0


def _by_day(days: Sequence[PartitionDay]) -> Table:
    columns = ("day", "stream", "runs", "partitions loaded", "skipped", "rows loaded", "skipped")
    rows = (
        (
            each.day,
            each.stream,
            *(count(number) for number in (each.runs, each.partitions_loaded, each.partitions_skipped)),
            *(count(number) for number in (each.rows_loaded, each.rows_skipped)),
        )
        for each in days
    )
    return Table(columns=columns, rows=tuple(rows))
