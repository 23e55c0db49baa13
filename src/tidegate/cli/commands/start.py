"""The commands to get started: `init`, `demo`, `doctor` and `schema`.

None of them overwrites a file that it did not create.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from tidegate.cli.shell import Shell
from tidegate.cli.tables import Table
from tidegate.cli.url_errors import of_url
from tidegate.core.display import counted
from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate.engine.assemble.doctor import Finding

FAILED = 1


def init(
    shell: Shell,
    url: Annotated[str | None, Argument(metavar="URL", help="URL of a database to propose streams for.")] = None,
    schema: Annotated[str | None, Option(metavar="NAME", help="Only propose tables of this schema.")] = None,
    tables: Annotated[
        list[str] | None,
        Option("--tables", metavar="PATTERN", help="Only propose tables that match, such as 'public.*'. Repeatable."),
    ] = None,
    exclude: Annotated[
        list[str] | None, Option("--exclude", metavar="PATTERN", help="Leave out tables that match. Repeatable.")
    ] = None,
) -> int:
    """Writes a commented tidegate.yaml.

    From a database URL it lists the tables and proposes key, strategy, deletes, types and layout for each; of many
    tables that are loaded alike it makes one stream with a pattern. Reads no rows but the first ones of a SQLite file.
    """
    from tidegate.cli.project_file import example, grouped, render  # noqa: PLC0415 - only `init` proposes
    from tidegate.cli.proposal import Scope, login, propose  # noqa: PLC0415 - as above

    file = shell.folder / "tidegate.yaml"
    if file.exists():
        raise ConfigError(f"{file} already exists", hint="Use another folder with `--project DIR`.")
    variable, left_out = None, 0
    if url is None:
        text, streams = example(), ["orders"]
    else:
        from tidegate.config.secrets import redacting  # noqa: PLC0415 - as above

        shell.redact = redacting(url)
        own = () if schema is None else (f"{schema}.*",)
        scope = Scope(tables=(*own, *(tables or ())), exclude=tuple(exclude or ()))
        with of_url("tidegate init URL"):
            access = login(url, shell.folder)
            found = grouped(propose(access, scope))
        text, streams = render(access, found), [proposal.name for proposal in found.streams]
        variable, left_out = access.variable, len(found.left_out)
    _write(file, text)
    if shell.as_json:
        shell.document({"file": str(file), "streams": streams})
        return 0
    shell.result(f"wrote {file} with {counted(len(streams), 'stream')}: {', '.join(streams)}")
    if left_out:
        what = "table or view is" if left_out == 1 else "tables or views are"
        shell.result(f"{left_out:,} {what} left out; the end of the file says which, and why")
    password = f"`export {variable}=…`, " if variable else ""
    shell.result(f"next: read it, then {password}`tidegate doctor`, `tidegate plan`, `tidegate run`")
    return 0


def _write(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        # "x": a file that appeared in between is somebody's work.
        with file.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise ConfigError(
            f"{file} cannot be written: {error.strerror}", hint="Choose a folder that is writable."
        ) from error


def demo(
    shell: Shell,
    directory: Annotated[Path, Argument(metavar="DIR", help="Folder to create the demo project in.")] = Path("demo"),
) -> int:
    """Runs a complete example on real flight data."""
    from rich.console import Console  # noqa: PLC0415 - only here

    from tidegate_demo import run  # noqa: PLC0415 - as above

    shell.set_up_log()
    console = Console(stderr=shell.as_json)
    return run(directory, console, as_json=shell.as_json, quiet=shell.quiet)


def doctor(
    shell: Shell,
    fetch: Annotated[
        bool,
        Option("--fetch", help="Fetch missing jars, and archive Spark's classes for faster starts."),
    ] = False,
) -> int:
    """Tests everything that a run needs.

    Java, jars, catalog, registry, connections: each is ok, or shows the command that fixes it.
    """
    with shell.project() as project:
        findings = project.doctor(fetch=fetch, on_fetch=shell.say)
    exit_code = 0 if all(finding.ok for finding in findings) else FAILED
    if shell.as_json:
        shell.document({"findings": [finding.to_dict() for finding in findings], "exit_code": exit_code})
    else:
        _tell(shell, findings)
    return exit_code


def schema(shell: Shell) -> int:
    """Prints the JSON schema of tidegate.yaml, for editors."""
    from tidegate.config import json_schema  # noqa: PLC0415 - it loads every plugin

    shell.document(json_schema())
    return 0


def _tell(shell: Shell, findings: Sequence[Finding]) -> None:
    rows = ((finding.name, "ok" if finding.ok else "missing", finding.detail) for finding in findings)
    shell.table(Table(columns=("part", "check", "detail"), rows=tuple(rows)))
    for finding in findings:
        if not finding.ok:
            shell.problem(code=finding.name, message=finding.detail, hint=finding.hint)
