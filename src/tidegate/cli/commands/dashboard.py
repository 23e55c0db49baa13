"""The command `dashboard`: serves the pages of a project until it is stopped."""

from __future__ import annotations

import os
import threading
from typing import Annotated

from typer import Option

from tidegate import extras
from tidegate.cli.shell import Shell
from tidegate.errors import ConfigError
from tidegate.spark import shared

Host = Annotated[
    str, Option(metavar="ADDRESS", help="Address of the dashboard; others than loopback need a token or a user header.")
]
Port = Annotated[int, Option(min=1, max=65535, metavar="N", help="Port of the dashboard.")]
UserHeader = Annotated[
    str | None, Option(metavar="NAME", help="Header in which a proxy names the user it has authenticated.")
]
AllowHost = Annotated[
    list[str] | None, Option(metavar="NAME", help="Name under which browsers reach the dashboard. Repeatable.")
]
ReadOnly = Annotated[bool, Option("--read-only", help="A dashboard without actions.")]
ShowData = Annotated[bool, Option("--show-data", help="Show the values of quarantined rows.")]


LOWEST = 19
"""Of priorities: pages of a service wait for its loads, and never the other way round."""


def dashboard(
    shell: Shell,
    host: Host = "127.0.0.1",
    port: Port = 8471,
    user_header: UserHeader = None,
    allow_host: AllowHost = None,
    read_only: ReadOnly = False,
    show_data: ShowData = False,
) -> int:
    """Serves the dashboard of the project: state, runs, proofs, tables, and actions.

    Prints the link to open. Stops at Ctrl-C or SIGTERM; commands that it has started go on.
    """
    try:
        from tidegate.service.web.app import create_app  # noqa: PLC0415 - needs the extra
        from tidegate.service.web.commands import Commands  # noqa: PLC0415 - as above
        from tidegate.service.web.server import serving  # noqa: PLC0415 - as above
        from tidegate.service.web.settings import TOKEN, WebSettings  # noqa: PLC0415 - as above
        from tidegate.telemetry.metrics import Metrics  # noqa: PLC0415 - as above
    except ImportError as error:
        raise ConfigError("the dashboard needs packages that are not installed", hint=extras.hint("service")) from error
    settings = WebSettings(
        host=host,
        port=port,
        token=os.environ.get(TOKEN, ""),  # a command line can be read by everybody
        user_header=user_header or "",
        hosts=tuple(allow_host or ()),
        read_only=read_only,
        show_data=show_data,
    )
    with shell.project() as project:
        metrics = Metrics(config=project.config, lakes=project.lakes)
        service = Commands(project=project, folder=shell.folder.absolute(), same=shell.same_project())
        app = create_app(service, settings, metrics=metrics.render)
        from tidegate.engine.watch import stopped_by_signals  # noqa: PLC0415 - it imports the engine

        if shared.provided():
            os.nice(LOWEST)
        stop = threading.Event()
        with stopped_by_signals(stop.set), serving(app) as address:
            if shell.as_json:
                shell.document({"url": address})
            else:
                shell.verbatim(f"the dashboard is at {address}")
            stop.wait()
    return 0
