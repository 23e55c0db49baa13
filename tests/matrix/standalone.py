"""Plays one history outside of pytest, with a Spark and servers of its own."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from matrix.groups import FLAVOURS, Ground, new_url
from matrix.histories import Step
from matrix.shapes import Shape
from matrix.shrink import replay
from matrix.simulated_tables import install
from support.kafka import broker
from support.lake import spark_session, with_driver
from support.mariadb import MariadbServer
from support.postgres import PostgresServer
from support.snowflake import running as snowflake
from support.trino import running
from tidegate.dialects.snowflake import Snowflake


def play(flavour: str, format: str, shape: Shape, steps: Sequence[Step]) -> None:
    """Prints what fails; ends with an error if something does."""
    with spark_session() as spark, _database(FLAVOURS[flavour].server) as url:
        if FLAVOURS[flavour].server == "snowflake_server":
            with_driver(spark, *Snowflake.jars)
        ground = Ground(folder=Path(tempfile.mkdtemp(prefix="tidegate-matrix-")), spark=spark, url=url)
        failures = replay(flavour, format, shape, steps, ground)
        print(*failures or ["nothing fails"], f"the project: {ground.folder}", sep="\n")
    if failures:
        raise SystemExit(1)


@contextmanager
def _database(server: str | None) -> Iterator[str]:
    match server:
        case None:
            yield ""
        case "kafka":
            with broker() as found:
                yield new_url(server, found)
        case "simulated":
            folder = Path(tempfile.mkdtemp(prefix="tidegate-dialects-"))
            install(folder)
            sys.path.insert(0, str(folder))
            yield ""
        case "snowflake_server":
            with snowflake() as found:
                yield new_url(server, found)
        case "trino_server":
            with running() as found:
                yield new_url(server, found)
        case _:
            found = PostgresServer.new() if server == "postgres" else MariadbServer.new()
            try:
                yield new_url(server, found)
            finally:
                found.drop()
