"""The commands `check`, `plan`, `run` and `resync`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from tidegate.cli.command import Exclude, Select, Stream, Streams
from tidegate.cli.moved import MOVED, OPTIONAL, moved
from tidegate.cli.shell import Shell
from tidegate.cli.tables import Table, size
from tidegate.core.display import counted
from tidegate.core.outcome import Problem
from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidegate.api import Project
    from tidegate.core.report import RunReport
    from tidegate.engine.preview import StreamPlan

Options = Annotated[
    list[str] | None, Option("--set", metavar="NAME=VALUE", help="A strategy option, for this call only; repeatable.")
]


def check(
    shell: Shell,
    source: Annotated[
        bool, Option("--source", help="Also ask the sources for tables, columns, unique keys and privileges.")
    ] = False,
) -> int:
    """Validates the project without touching data.

    Shows everything that is wrong with it at once.
    """
    with shell.project(partly=True) as project:
        streams = project.check(source=source)
        off = [error.message for error in project.config.alerts.absent.values()]
        wrong = [Problem(code=each.code, message=each.message, hint=each.hint) for each in project.config.problems]
    failed = wrong or any(stream.errors for stream in streams)
    exit_code = ConfigError.exit_code if failed else 0
    if shell.as_json:
        failure = {"error": wrong[0].to_dict(), "problems": [each.message for each in wrong]} if wrong else {}
        listed = [stream.to_dict() for stream in streams]
        shell.document({**failure, "streams": listed, "notes": off, "exit_code": exit_code})
        return exit_code
    rows = (
        (stream.name, "failed" if stream.errors else "ok", stream.source, stream.strategy, stream.write, stream.target)
        for stream in streams
    )
    if streams:
        shell.table(Table(columns=("stream", "check", "source", "strategy", "write", "target"), rows=tuple(rows)))
    for stream in streams:
        for note in stream.notes:
            shell.result(f"note: {stream.name}: {note}")
    for each in off:
        shell.result(f"note: {each}; no alert is sent there")
    _tell_problems(shell, [*wrong, *(error for stream in streams for error in stream.errors)])
    return exit_code


def _tell_problems(shell: Shell, problems: Sequence[Problem]) -> None:
    """Each problem once, those of one code and hint together."""
    together: dict[tuple[str, str], list[str]] = {}
    for problem in problems:
        together.setdefault((problem.code, problem.hint), []).append(problem.message)
    for (code, hint), (first, *more) in together.items():
        shell.problem(code=code, message=first, hint=hint, more=tuple(dict.fromkeys(more)))


def plan(
    shell: Shell,
    streams: Streams = None,
    select: Select = None,
    exclude: Exclude = None,
    options: Options = None,
    full_refresh: Annotated[
        bool, Option("--full-refresh", help="Plan a full refresh, which reads every row again.")
    ] = False,
) -> int:
    """Shows what a run would load, and why.

    Moves no rows and does not start Spark.
    """
    with shell.project() as project:
        report = project.plan(
            *(streams or ()), select=select, exclude=exclude, options=_options(options), full_refresh=full_refresh
        )
    if shell.as_json:
        shell.document(report.to_dict())
        return report.exit_code
    for one in report.streams:
        _tell_plan(shell, one)
    return report.exit_code


def run(
    shell: Shell,
    streams: Streams = None,
    select: Select = None,
    exclude: Exclude = None,
    options: Options = None,
    parallel: Annotated[int, Option(min=1, metavar="N", help="Streams to load in parallel.")] = 1,
    full_refresh: Annotated[
        bool, Option("--full-refresh", help="Read every row again and replace the tables.")
    ] = False,
    yes: Annotated[bool, Option("--yes", help="Confirm replacing tables that have rows.")] = False,
    allow_deletes: Annotated[
        bool, Option("--allow-deletes", help="Allow any number of deletes in this run; this is recorded.")
    ] = False,
    fail_fast: Annotated[bool, Option("--fail-fast", help="Start no more streams after the first failure.")] = False,
) -> int:
    """Loads what changed.

    Seven stages: detect, plan, read, check, write, verify, advance.
    """
    names = tuple(streams or ())
    with shell.project() as project:
        if full_refresh and not yes:
            _refuse_filled(project, names, select, exclude)
        from tidegate.cli.progress import progress  # noqa: PLC0415 - only a run shows one
        from tidegate.engine import certificates  # noqa: PLC0415 - only a run reminds of them

        with progress(shell) as listener:
            report = project.run(
                *names,
                select=select,
                exclude=exclude,
                options=_options(options),
                parallel=parallel,
                full_refresh=full_refresh,
                allow_deletes=allow_deletes,
                fail_fast=fail_fast,
                on_event=listener,
            )
        certificates.remind(project.config, [each.stream for each in report if each.error is None])
    if shell.as_json:
        shell.document(report.to_dict())
    else:
        _tell_run(shell, report)
    return report.exit_code


def resync(
    shell: Shell,
    stream: Stream,
    replace: Annotated[bool, Option("--replace", help="Replace the table with the rows that are read.")] = False,
    yes: Annotated[bool, Option("--yes", help="Confirm replacing a table that has rows.")] = False,
) -> int:
    """Reloads a stream whose source lost its history.

    For a source that no longer continues what was loaded, after `history_gone`. Compares the table with the source,
    writes only the differences, and sets the position to the source's end.
    """
    with shell.project() as project:
        if replace and not yes:
            _refuse_filled(project, (stream,), option="--replace")
        from tidegate.cli.progress import progress  # noqa: PLC0415 - only a run shows one

        with progress(shell) as listener:
            report = project.resync(stream, replace=replace, on_event=listener)
    if shell.as_json:
        shell.document(report.to_dict())
    else:
        _tell_run(shell, report)
    return report.exit_code


def _options(texts: list[str] | None) -> dict[str, Any]:
    """Parses `NAME=VALUE` like the project file."""
    import yaml  # noqa: PLC0415 - few calls state any

    found: dict[str, Any] = {}
    for text in texts or ():
        name, given, value = text.partition("=")
        if not given:
            raise ConfigError(
                f"--set {text!r} has no value", hint="Use --set NAME=VALUE, such as --set lookback=LAST_3_DAYS."
            )
        found[name.strip()] = yaml.safe_load(value)
    return found


def _refuse_filled(
    project: Project,
    names: tuple[str, ...],
    select: list[str] | None = None,
    exclude: list[str] | None = None,
    *,
    option: str = "--full-refresh",
) -> None:
    filled = project.filled(*names, select=select, exclude=exclude)
    if filled:
        raise ConfigError(
            f"{option} would replace the rows of {', '.join(filled)}",
            hint="Add --yes to confirm; readers see the old rows until the new ones are verified.",
        )


def _tell_plan(shell: Shell, plan: StreamPlan) -> None:
    known = [counted(plan.rows, "row")] if plan.rows is not None else []
    known += [size(plan.bytes)] if plan.bytes is not None else []
    amount = "".join(f", {each}" for each in known) if plan.outcome == "changed" else ""
    shell.result(f"{plan.stream} -> {plan.target}: {plan.outcome} ({plan.strategy}{amount})")
    skipped = [part for part in plan.slices if part.action == "SKIP"]
    for part in plan.slices:
        if part.action != "SKIP":
            shell.result(f"  {part.action} {part.slice}: {part.reason}")
    if skipped:
        shell.result(f"  SKIP {counted(len(skipped), 'partition')}: nothing in them differs from what was loaded")
    for change in plan.schema_changes:
        types = " to ".join(filter(None, (change["old"], change["new"])))
        shell.result(f"  column {change['column']}: {change['kind']} ({types})")
    if plan.write:
        bounds = "".join(
            f"; only files with {prune['column']} from {prune['low']} to {prune['high']}"
            for prune in plan.write["prune"]
        )
        shell.result(f"  write {plan.write['mode']}: {plan.write['reason']}{bounds}")
    for note in plan.notes:
        shell.result(f"  note: {note}")
    if plan.error:
        _tell_problem(shell, plan.stream, plan.error)


def _tell_run(shell: Shell, report: RunReport) -> None:
    rows = tuple((outcome.stream, *moved(outcome.to_dict())) for outcome in report.streams)
    shell.table(Table(columns=("stream", *MOVED), rows=rows, optional=OPTIONAL))
    for outcome in report.streams:
        for note in outcome.notes:
            shell.result(f"note: {outcome.stream}: {note}")
    for outcome in report.streams:
        if outcome.error:
            _tell_problem(shell, outcome.stream, outcome.error)


def _tell_problem(shell: Shell, stream: str, problem: Problem) -> None:
    about = "" if repr(stream) in problem.message else f"{stream}: "
    shell.problem(code=problem.code, message=about + problem.message, hint=problem.hint)
