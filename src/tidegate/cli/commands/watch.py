"""The command `watch`: runs scheduled streams and prints one line per run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Option

from tidegate.cli.command import Exclude, Select, Streams, duration_of
from tidegate.cli.commands.status import moment
from tidegate.cli.shell import Shell
from tidegate.cli.tables import count, seconds

if TYPE_CHECKING:
    from tidegate.engine.watch import WatchResult


Every = Annotated[str | None, Option(metavar="TIME", help="Interval for streams without a schedule, such as 5m.")]
Parallel = Annotated[int, Option(min=1, metavar="N", help="Streams to load in parallel.")]


def watch(
    shell: Shell,
    streams: Streams = None,
    select: Select = None,
    exclude: Exclude = None,
    every: Every = None,
    parallel: Parallel = 1,
) -> int:
    """Runs streams when they are due, in one warm process.

    Stops at Ctrl-C or SIGTERM, after running loads have finished. With --json, prints one document per run and line.
    """
    usual = duration_of("--every", every, example="5m")
    with shell.project() as project:
        project.watch(
            *(streams or ()),
            select=select,
            exclude=exclude,
            every=usual,
            parallel=parallel,
            tell=lambda turned: _tell(shell, turned),
        )
    shell.say("stopped; no load was interrupted")
    return 0


def _tell(shell: Shell, turned: WatchResult) -> None:
    outcome = turned.outcome
    if shell.as_json:
        values = {
            "ended_at": turned.ended_at.isoformat(),
            "next_at": turned.next_at.isoformat(),
            **outcome.to_dict(),
            **dict.fromkeys(("maintenance", "upkeep"), turned.upkeep.to_dict() if turned.upkeep else None),
        }
        shell.line(values)
        return
    moved = f"{count(outcome.rows_inserted)} inserted, {count(outcome.rows_updated)} updated, "
    for name in ("deleted", "quarantined", "warned"):
        rows = getattr(outcome, f"rows_{name}")
        moved += f"{count(rows)} {name}, " if rows else ""
    took = seconds(outcome.seconds.get("total"))
    loaded = moved if outcome.outcome == "loaded" else ""
    shell.result(
        f"{moment(turned.ended_at)}  {turned.stream}: {outcome.outcome}, {loaded}{took}, next {moment(turned.next_at)}"
    )
    if outcome.set_aside:
        shell.result(f"{turned.stream}: {outcome.set_aside}")
    if outcome.error:
        shell.problem(code=outcome.error.code, message=outcome.error.message, hint=outcome.error.hint)
    for table in turned.upkeep.tables if turned.upkeep else ():
        if table.steps:
            shell.result(
                f"{turned.stream}: maintained {table.table}: {', '.join(str(done.step) for done in table.steps)}"
            )
    if turned.upkeep and turned.upkeep.error:
        problem = turned.upkeep.error
        shell.problem(code=problem.code, message=problem.message, hint=problem.hint)
