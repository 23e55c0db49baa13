"""The command `serve`: the service of a project, in the foreground."""

from __future__ import annotations

import importlib.util
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from typer import Option

from tidegate import extras
from tidegate.cli.command import Exclude, Select, Streams, duration_of
from tidegate.cli.commands.dashboard import AllowHost, Host, Port, ReadOnly, ShowData, UserHeader
from tidegate.cli.commands.watch import Every, Parallel
from tidegate.cli.shell import Shell
from tidegate.cli.tables import size
from tidegate.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import timedelta

    from tidegate.api import Project
    from tidegate.service.place import Place
    from tidegate.service.supervisor import Options
    from tidegate.service.worker import Run


def serving(run: Run) -> Callable[..., int]:
    """The command.

    Args:
        run: runs any command by its words; called in processes that the service forks.
    """

    def serve(
        shell: Shell,
        streams: Streams = None,
        select: Select = None,
        exclude: Exclude = None,
        every: Every = None,
        parallel: Parallel = 1,
        no_http: Annotated[bool, Option("--no-http", help="Serve no dashboard.")] = False,
        host: Host = "127.0.0.1",
        port: Port = 8471,
        user_header: UserHeader = None,
        allow_host: AllowHost = None,
        read_only: ReadOnly = False,
        show_data: ShowData = False,
        no_schedule: Annotated[
            bool, Option("--no-schedule", help="Run streams only when a command asks for it.")
        ] = False,
        ends_after: Annotated[
            str | None, Option(metavar="TIME", help="End after so long without a command, such as 30m.")
        ] = None,
        inherited: Annotated[str | None, Option(hidden=True)] = None,
    ) -> int:
        """Keeps Spark warm, runs streams when they are due, and runs the commands of this project.

        `tidegate run` and other commands that move rows find the service by themselves and hand their work to it. Stops
        at Ctrl-C or SIGTERM, after running loads have finished.
        """
        lasts = duration_of("--ends-after", ends_after, example="30m")
        schedule = ["watch", f"--parallel={parallel}", *(streams or ())]
        schedule += _options({"--select": select, "--exclude": exclude, "--every": [every] if every else None})
        flags = [word for word, wanted in (("--read-only", read_only), ("--show-data", show_data)) if wanted]
        named = {"--user-header": [user_header] if user_header else None, "--allow-host": allow_host}
        web = ["dashboard", f"--host={host}", f"--port={port}", *flags, *_options(named)]
        with shell.project() as project:
            chosen = project.streams(*(streams or ()), select=select, exclude=exclude)
            due = not no_schedule and (every is not None or any(each.policies.schedule for each in chosen))
            options = _kept(project, shell, lasts)
        served = web if not no_http and _has_dashboard(shell) else None
        options = replace(options, schedule=schedule if due else None, web=served)
        return _serve(shell, run, options, inherited, asked=no_schedule)

    return serve


def _serve(shell: Shell, run: Run, options: Options, inherited: str | None, *, asked: bool) -> int:
    from tidegate.service.place import Claim, Place  # noqa: PLC0415 - as above
    from tidegate.service.supervisor import Supervisor  # noqa: PLC0415 - as above

    if sys.platform != "linux":
        raise ConfigError("`tidegate serve` needs Linux", hint="Use `tidegate watch`, which runs streams when due.")
    place = Place.of(shell.folder)
    claim = Claim.inherited(*map(int, inherited.split(","))) if inherited else place.claim()
    if claim is None:
        raise ConfigError(_running(place), hint="Commands find it by themselves. End it before you start another.")
    with claim.lock:
        say = _Log(shell)
        why = "--no-schedule was given" if asked else "no stream has a `schedule:`"
        say(f"serving {place.project}{'' if options.schedule else f'; {why}, so none runs by itself'}")
        code = Supervisor(place=place, run=run, options=options, say=say, claim=claim).serve()
    shell.say("stopped")
    return code


def _kept(project: Project, shell: Shell, ends_after: timedelta | None) -> Options:
    from tidegate.service.supervisor import Options  # noqa: PLC0415 - most commands need none of it

    return Options(
        idle_stop=project.config.service.idle_stop.total_seconds(),
        ends_after=None if ends_after is None else ends_after.total_seconds(),
        profile=shell.profile,
        trusted=shell.trusted,
        warm=project.config.spark.remote is None,
    )


def _has_dashboard(shell: Shell) -> bool:
    found = importlib.util.find_spec("starlette") is not None
    if not found:
        shell.say(f"no dashboard is served: {extras.hint('service')}")
    return found


def _options(given: Mapping[str, Sequence[str] | None]) -> list[str]:
    """The words of options that may be repeated."""
    return [f"{option}={value}" for option, values in given.items() for value in values or ()]


def _running(place: Place) -> str:
    """What is known of the service that runs already."""
    from tidegate.service import wire  # noqa: PLC0415 - as above

    connection = place.connect()
    if connection is None:
        return "a service of this project is starting or ending"
    with connection:
        wire.send(connection, {"ask": "state"})
        message = wire.receive(connection)
    if message is None:
        return "a service of this project is ending"
    state, _ = message
    since = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(state["since"]))
    spark = state["spark"]
    memory = f"Spark holds {size(spark['memory'])}" if spark else "Spark is not started"
    return f"a service of this project runs already: process {state['pid']} since {since}, {memory}"


class _Log:
    """A line of the service's own, with the time, beside those of the commands it runs."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def __call__(self, text: str) -> None:
        self._shell.say(f"{time.strftime('%Y-%m-%d %H:%M:%SZ', time.gmtime())}  {text}")
