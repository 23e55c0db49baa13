"""Plays one history outside of pytest, with a Spark and servers of its own."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from matrix.groups import DRIVERS, FLAVOURS, Ground, new_url
from matrix.histories import Step
from matrix.shapes import Shape
from matrix.shrink import replay
from matrix.simulated_tables import install
from matrix.sqlserver_logs import log_servers
from support.kafka import broker
from support.lake import spark_session, with_driver
from support.mariadb import MariadbServer
from support.postgres import PostgresServer
from support.snowflake import running as snowflake
from support.trino import running as trino

LISTENING = {"kafka": broker, "snowflake_server": snowflake, "sqlserver_logs": log_servers, "trino_server": trino}


def play(flavour: str, format: str, shape: Shape, steps: Sequence[Step]) -> None:
    """Prints what fails; ends with an error if something does."""
    fixture = FLAVOURS[flavour].server
    with spark_session() as spark, _server(fixture) as server:
        with_driver(spark, *DRIVERS.get(fixture or "", ()))
        url = new_url(fixture, server) if fixture else ""
        ground = Ground(folder=Path(tempfile.mkdtemp(prefix="tidegate-matrix-")), spark=spark, url=url, server=server)
        failures = replay(flavour, format, shape, steps, ground)
        print(*failures or ["nothing fails"], f"the project: {ground.folder}", sep="\n")
    if failures:
        raise SystemExit(1)


@contextmanager
def _server(fixture: str | None) -> Iterator[Any]:
    """What that fixture of the tests is."""
    match fixture:
        case None:
            yield None
        case "simulated":
            folder = Path(tempfile.mkdtemp(prefix="tidegate-dialects-"))
            install(folder)
            sys.path.insert(0, str(folder))
            yield None
        case "postgres" | "mariadb":
            found = PostgresServer.new() if fixture == "postgres" else MariadbServer.new()
            try:
                yield found
            finally:
                found.drop()
        case _:
            with LISTENING[fixture]() as found:
                yield found
