"""The command `metrics`."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated

from typer import Option

from tidegate.cli.shell import Shell
from tidegate.core.visible import visible


def metrics(
    shell: Shell,
    textfile: Annotated[
        Path | None,
        Option(metavar="PATH", help="Write them to this file at once, for node_exporter; it ends in .prom."),
    ] = None,
    tables: Annotated[
        bool, Option("--tables", help="Also read the tables' metadata: size, small files, rows in quarantine.")
    ] = False,
) -> int:
    """Prints the metrics of the project in the format of OpenMetrics, for Prometheus.

    Reads only the registry. Starts no Spark and opens no source.
    """
    from tidegate.telemetry.metrics import Metrics, refuse_name, write_textfile  # noqa: PLC0415 - few commands need it

    if textfile is not None:
        refuse_name(textfile)
    with (
        shell.project() as project,
        closing(Metrics(config=project.config, lakes=project.lakes, tables=tables)) as asked,
    ):
        text = asked.render()
    if textfile is not None:
        write_textfile(textfile, text)
    if shell.as_json:
        shell.document({"openmetrics": text.decode(), "textfile": None if textfile is None else str(textfile)})
    elif textfile is None:
        sys.stdout.write(visible(text.decode()) if sys.stdout.isatty() else text.decode())
    return 0
