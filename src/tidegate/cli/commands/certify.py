"""The command `certify`, which proves on a user's own server that Tidegate works with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from tidegate.cli.logs import LogLevel
from tidegate.cli.shell import Shell
from tidegate.cli.tables import Table
from tidegate.cli.url_errors import of_url
from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from tidegate_scenarios.report import Case, Report
    from tidegate_scenarios.run import Place

FAILED = 1


def certify(
    shell: Shell,
    url: Annotated[str, Argument(metavar="URL", help="URL of a database; a login that may create tables.")],
    schema: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="A schema that is empty or does not exist. Default: tidegate_certify; on Oracle the login's.",
        ),
    ] = None,
    report: Annotated[
        Path | None,
        Option(metavar="FILE", help="Write the report to this file: Markdown if it ends in .md, else JSON."),
    ] = None,
    clean: Annotated[bool, Option("--clean", help="Only remove what a certification left that was killed.")] = False,
    yes: Annotated[bool, Option("--yes", help="Confirm that tables are created, or removed with --clean.")] = False,
) -> int:
    """Proves that Tidegate works with your database server.

    In a schema of its own it creates tables with every type, loads and changes them by every strategy, cancels loads,
    cuts connections, compares the lake by another reader, and removes the tables again.
    """
    from tidegate.config.secrets import redacting  # noqa: PLC0415 - only here
    from tidegate_scenarios import run as kit  # noqa: PLC0415 - it loads PyIceberg

    shell.redact = redacting(url)
    if shell.log_level is LogLevel.INFO:
        shell.log_level = LogLevel.ERROR  # loads fail on purpose
    shell.set_up_log()
    with of_url("tidegate certify URL"):
        place = kit.place_of(url, schema)
    shell.redact = place.redact
    if clean:
        return _clean(shell, place, yes=yes)
    if not yes:
        raise ConfigError(_intended(place), hint="Add --yes to confirm; what is created is removed in the end.")
    if report is not None:
        _write(report, "", mode="a")  # before a minute of work, and an older report stays until there is a new one
    done = kit.certify(place, lambda case: _say(shell, case), lambda left: _removed(shell, place, left))
    if report is not None:
        as_text = report.suffix == ".md"
        _write(report, shell.redact(done.markdown()) if as_text else shell.json_of(done.to_dict(), indent=2) + "\n")
    exit_code = 0 if done.ok and not done.left else FAILED
    if shell.as_json:
        shell.document({**done.to_dict(), "exit_code": exit_code})
    else:
        _tell(shell, done)
    return exit_code


def _intended(place: Place) -> str:
    where = f"schema {place.schema}" + (", which does not exist yet" if place.missing else "")
    outside = f"; it also {' and '.join(place.outside)}" if place.outside else ""
    return f"certify creates tables {', '.join(place.tables)} in {where}, on {_named(place)}{outside}"


def _named(place: Place) -> str:
    return f"{place.server.product} {place.server.version}"


def _clean(shell: Shell, place: Place, *, yes: bool) -> int:
    from tidegate_scenarios import run as kit  # noqa: PLC0415 - as above

    if place.left and not yes:
        raise ConfigError(
            f"certify drops what an earlier one left in schema {place.schema}: {', '.join(place.left)}",
            hint="Add --yes to confirm.",
        )
    left = kit.clean(place)
    if shell.as_json:
        shell.document({"schema": place.schema, "removed": sorted({*place.left} - {*left}), "left": list(left)})
    else:
        _removed(shell, place, left)
    return FAILED if left else 0


def _removed(shell: Shell, place: Place, left: tuple[str, ...]) -> None:
    if left:
        shell.say(f"could not be removed from schema {place.schema}: {', '.join(left)}; see `--clean`")
    else:
        shell.say(f"nothing is left in schema {place.schema}")


def _say(shell: Shell, case: Case) -> None:
    shell.say(f"{case.state:13} {case.group}: {case.name}{f' ({case.detail})' if case.detail else ''}")


def _tell(shell: Shell, done: Report) -> None:
    from tidegate_scenarios.report import State  # noqa: PLC0415 - as above

    groups = dict.fromkeys(case.group for case in done.cases)
    rows = []
    for group in groups:
        states = [case.state for case in done.cases if case.group == group]
        rows.append((group, str(len(states)), *(str(states.count(state)) for state in State)))
    shell.table(Table(columns=("group", "tried", *map(str, State)), rows=tuple(rows)))
    notable = [case for case in done.cases if case.state is not State.PASSED]
    cases = tuple((case.group, case.name, str(case.state), case.detail) for case in notable)
    if cases:
        shell.table(Table(columns=("group", "case", "result", "detail"), rows=cases))
    counts = ", ".join(f"{count} {state}" for state, count in done.counts.items())
    shell.result(f"{done.server.product} {done.server.version}: {counts}, in {done.seconds:.0f} s")


def _write(file: Path, text: str, *, mode: str = "w") -> None:
    try:
        with file.open(mode, encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise ConfigError(
            f"{file} cannot be written: {error.strerror}", hint="Choose a folder that is writable."
        ) from error
