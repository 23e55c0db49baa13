"""The commands `export …`, which tell other tools of a project's tables.

Overwrites only files that it wrote itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from tidegate.cli.command import Exclude, Select, Streams
from tidegate.cli.shell import Shell
from tidegate.core.display import counted
from tidegate.errors import ConfigError


def dbt_sources(
    shell: Shell,
    streams: Streams = None,
    output: Annotated[
        Path | None, Option("--output", metavar="PATH", help="Write this file, such as models/sources.yml.")
    ] = None,
    database: Annotated[
        str | None, Option(metavar="NAME", help="The database of all tables in dbt (Trino: the catalog).")
    ] = None,
    select: Select = None,
    exclude: Exclude = None,
) -> int:
    """Prints a sources.yml for dbt: columns, data tests, freshness, and the keys of Dagster's assets.

    From the metadata of the tables, without Spark and without opening a source.
    """
    from tidegate.engine.export import dbt  # noqa: PLC0415 - other commands do not need it

    with shell.project() as project:
        found = dbt.dbt_sources(project.streams(*(streams or ()), select=select, exclude=exclude), database)
    if output is not None:
        _write(output, found.text, dbt.HEADER)
        shell.say(f"{output}: {counted(found.tables, 'table')}")
    else:
        shell.verbatim(found.text.rstrip("\n"))
    if shell.as_json:
        shell.document({"sources": found.text, "tables": found.tables, "left_out": list(found.left_out)})
    for each in found.left_out:
        shell.say(f"left out: {each}")
    return 0


def snowflake(
    shell: Shell,
    streams: Streams = None,
    output: Annotated[
        Path | None, Option("--output", metavar="PATH", help="Write this file, such as snowflake.sql.")
    ] = None,
    database: Annotated[
        str | None, Option(metavar="NAME", help="The database at Snowflake that gets the tables.")
    ] = None,
    select: Select = None,
    exclude: Exclude = None,
) -> int:
    """Prints the statements with which Snowflake reads the tables, and shows them after each load.

    From the project and the metadata of the tables, without Spark, without opening a source and without secrets.
    """
    from tidegate.engine.export import snowflake as script  # noqa: PLC0415 - other commands do not need it

    with shell.project() as project:
        chosen = project.streams(*(streams or ()), select=select, exclude=exclude)
        tables = [
            script.Table(stream=each.name, target=each.target, address=each.format.inspection.address(each.target))
            for each in chosen
            if each.format.inspection is not None
        ]
        unknown = [f"{each.name}: its format is not known" for each in chosen if each.format.inspection is None]
        found = script.snowflake(tables, database, unknown)
    if output is not None:
        _write(output, f"{found.text}\n", script.HEADER)
        shell.say(f"{output}: {counted(found.tables, 'table')}")
    else:
        shell.verbatim(found.text)
    if shell.as_json:
        shell.document(
            {
                "script": found.text,
                "tables": found.tables,
                "refresh": list(found.refresh),
                "left_out": list(found.left_out),
            }
        )
    for each in found.left_out:
        shell.say(f"left out: {each}")
    return 0


def _write(path: Path, text: str, header: str) -> None:
    """The whole file or none of it."""
    try:
        if path.exists() and not path.read_text(encoding="utf-8").startswith(header):
            raise ConfigError(
                f"{path} exists and was not written by this command", hint="Name another file: --output PATH."
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".{path.name}.new")
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be written: {error}", hint="Name another file: --output PATH.") from error
