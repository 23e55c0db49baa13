"""The command `show`, which tells what a stream's table is and how other engines read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Option

from tidegate.cli.command import Stream
from tidegate.cli.shell import Shell
from tidegate.cli.tables import Table, count, size, yes
from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from tidegate.engine.table_view import TableView


def show(
    shell: Shell,
    stream: Stream,
    snippet: Annotated[
        str | None,
        Option(metavar="ENGINE", help="Print only the snippet for one engine: duckdb, polars, spark, trino, …"),
    ] = None,
) -> int:
    """Shows a stream's table, and how to read it elsewhere.

    Rows, columns, layout, size, versions, and snippets for other engines, from the table's metadata. Reads no rows and
    does not start Spark.
    """
    with shell.project() as project:
        found = project.show(stream)
    if snippet is not None and snippet not in found.snippets:
        raise ConfigError(
            f"there is no snippet for {snippet!r}; there is one for {', '.join(found.snippets)}",
            hint=f"Leave --snippet away to see all of them: `tidegate show {stream}`.",
        )
    if shell.as_json:
        shell.document(found.to_dict())
    elif snippet is not None:
        shell.verbatim(found.snippets[snippet])
    else:
        _tell(shell, found)
    return 0


def _tell(shell: Shell, found: TableView) -> None:
    files = f"{count(found.facts.files)} {'file' if found.facts.files == 1 else 'files'}, {size(found.facts.bytes)}"
    files += f", {count(found.facts.delete_files)} with deleted rows" if found.facts.delete_files else ""
    about = {
        "format": found.facts.format,
        "location": found.location or "-",
        "rows": "unknown without a scan" if found.rows is None else count(found.rows),
        "size": files,
        "partitioned by": ", ".join(found.facts.partition_by) or "nothing",
        "sorted by": ", ".join(found.facts.sort_by) or "nothing",
        "version": f"{found.version or '-'} ({count(found.versions)} kept)",
        "loads": count(found.sequence),
        "loaded through": found.loaded_through or "-",
    }
    width = max(map(len, about))
    shell.result(f"{found.stream} -> {found.target}")
    for name, text in about.items():
        shell.result(f"  {name.ljust(width)}  {text}")
    shell.result("")
    rows = tuple((each.name, each.type, yes(value=each.nullable)) for each in found.columns)
    shell.table(Table(columns=("column", "type", "nullable"), rows=rows))
    for engine, text in found.snippets.items():
        shell.verbatim(f"\n--- {engine} ---\n{text}")
