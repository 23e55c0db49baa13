"""Entry point of the command line: registers the commands and turns the outcome into an exit code.

Commands are imported lazily: a command never imports what it does not need.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Annotated, Any

import typer

import tidegate
from tidegate.cli.command import command
from tidegate.cli.commands import (
    alerts,
    attention,
    backfill,
    certify,
    checksum_tasks,
    connector,
    dashboard,
    explain,
    export,
    load,
    maintain,
    metrics,
    proof,
    quarantine,
    serve,
    show,
    slot,
    start,
    state,
    status,
    verify,
    watch,
)
from tidegate.cli.shell import UNHARMED
from tidegate.core.secret_names import without_logins
from tidegate.core.visible import visible
from tidegate.errors import INTERRUPTED, caused_by_interruption, stopping
from tidegate.service.caller import COMMANDS as HANDED

USAGE = 2
AGAIN = 1.0  # seconds

app = typer.Typer(
    name="tidegate",
    help="Loads only what changed in a source into a lakehouse table, exactly once, and proves that both are equal.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
state_app = typer.Typer(help="Shows or changes the position of a stream.")
backfill_app = typer.Typer(cls=backfill.StreamOrCommand, help="Reloads a range of a stream's source, in chunks.")
alerts_app = typer.Typer(help="Tests the channels of alerts, lists incidents, or looks for new ones.")
slot_app = typer.Typer(help="Lists or drops replication slots of the project.")
export_app = typer.Typer(help="Tells other tools of the project's tables.")
quarantine_app = typer.Typer(help="Lists, shows and replays rows that failed a check.")


def _version(*, asked: bool) -> None:
    if asked:
        typer.echo(f"tidegate {tidegate.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=lambda value: _version(asked=value), is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    del version  # its callback has told it


COMMANDS: dict[str, Callable[..., int]] = {
    "init": start.init,
    "demo": start.demo,
    "doctor": start.doctor,
    "certify": certify.certify,
    "check": load.check,
    "plan": load.plan,
    "run": load.run,
    "resync": load.resync,
    "verify": verify.verify,
    "maintain": maintain.maintain,
    "rollback": maintain.rollback,
    "watch": watch.watch,
    "pause": attention.pause,
    "resume": attention.resume,
    "serve": serve.serving(lambda words: main(words)),  # noqa: PLW0108 - it is made below
    "status": status.status,
    "dashboard": dashboard.dashboard,
    "proof": proof.proof,
    "savings": proof.savings,
    "show": show.show,
    "connector": connector.connector,
    "history": status.history,
    "metrics": metrics.metrics,
    "tasks": status.tasks,
    "checksum-tasks": checksum_tasks.checksum_tasks,
    "schema": start.schema,
    "explain": explain.explain,
}
STATE_COMMANDS: dict[str, Callable[..., int]] = {
    "show": state.show,
    "set": state.put,
    "adopt": state.adopt,
    "repair": state.repair,
    "rewind": state.rewind,
}
BACKFILL_COMMANDS: dict[str, Callable[..., int]] = {
    backfill.START: backfill.start,
    "list": backfill.show,
    "pause": backfill.pause,
    "resume": backfill.resume,
    "cancel": backfill.cancel,
}
ALERTS_COMMANDS: dict[str, Callable[..., int]] = {"test": alerts.tried, "list": alerts.listed, "check": alerts.check}
SLOT_COMMANDS: dict[str, Callable[..., int]] = {"list": slot.show, "drop": slot.drop}
QUARANTINE_COMMANDS: dict[str, Callable[..., int]] = {
    "list": quarantine.listed,
    "show": quarantine.show,
    "replay": quarantine.replay,
}
EXPORT_COMMANDS: dict[str, Callable[..., int]] = {"dbt-sources": export.dbt_sources, "snowflake": export.snowflake}
for _name, _work in COMMANDS.items():
    app.command(_name)(command(_work, handed=_name in HANDED))
for _name, _work in STATE_COMMANDS.items():
    state_app.command(_name)(command(_work))
for _name, _work in BACKFILL_COMMANDS.items():
    backfill_app.command(_name)(command(_work, handed=True))
for _name, _work in SLOT_COMMANDS.items():
    slot_app.command(_name)(command(_work))
for _name, _work in EXPORT_COMMANDS.items():
    export_app.command(_name)(command(_work))
app.add_typer(export_app, name="export")
app.add_typer(state_app, name="state")
app.add_typer(backfill_app, name="backfill")
app.add_typer(slot_app, name="slot")
for _name, _work in ALERTS_COMMANDS.items():
    alerts_app.command(_name)(command(_work))
app.add_typer(alerts_app, name="alerts")
for _name, _work in QUARANTINE_COMMANDS.items():
    quarantine_app.command(_name)(command(_work, handed=True))
app.add_typer(quarantine_app, name="quarantine")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code.

    0 done, 1 a stream failed, 2 configuration or usage, 3 a difference was found, 4 stopped on purpose, 5 another
    runner holds the stream, 130 interrupted.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words in ([], ["state"], ["backfill"], ["slot"], ["alerts"], ["quarantine"], ["export"]):
        words.append("--help")
    with _terminated_like_interrupted():
        try:
            result = app(words, prog_name="tidegate", standalone_mode=False)
        except typer.TyperException as error:
            return _refuse(words, error)
        except (KeyboardInterrupt, typer.Abort):
            sys.stderr.write(f"interrupted. {UNHARMED}\n")
            return INTERRUPTED
    return int(result or 0)


def _refuse(words: Sequence[str], error: typer.TyperException) -> int:
    message = without_logins(error.format_message().rstrip("."))
    hint = "`tidegate --help` lists the commands, `tidegate COMMAND --help` their options."
    if "--json" in words:
        problem = {"code": "usage", "message": message, "hint": hint}
        sys.stdout.write(json.dumps({"error": problem, "exit_code": USAGE}, ensure_ascii=False, indent=2) + "\n")
    else:
        sys.stderr.write(f"error[usage]: {visible(message)}\n  hint: {hint}\n")
    return USAGE


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """SIGTERM ends a command as Ctrl-C does: leases are given back, the JVM is stopped.

    Python drops what is raised while it collects garbage, so the interruption is raised again until it is noticed, and
    Python's message about the dropped one is suppressed.
    """
    before: dict[int, Any] = {}
    tell = sys.unraisablehook

    def dropped(raised: sys.UnraisableHookArgs) -> None:
        if not caused_by_interruption(raised.exc_value):
            tell(raised)

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        before.setdefault(signal.SIGALRM, signal.signal(signal.SIGALRM, interrupt))
        signal.setitimer(signal.ITIMER_REAL, AGAIN)
        stopping.set()
        if not caused_by_interruption(sys.exc_info()[1]):
            raise KeyboardInterrupt

    before |= {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    sys.unraisablehook = dropped
    try:
        yield
    finally:
        sys.unraisablehook = tell
        stopping.clear()
        if signal.SIGALRM in before:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
