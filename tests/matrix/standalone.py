"""Plays one history outside of pytest, with a Spark and servers of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from matrix.groups import FLAVOURS, Ground, new_url
from matrix.histories import Step
from matrix.shapes import Shape
from matrix.shrink import replay
from support.kafka import broker
from support.lake import spark_session
from support.mariadb import MariadbServer
from support.postgres import PostgresServer


def play(flavour: str, format: str, shape: Shape, steps: Sequence[Step]) -> None:
    """Prints what fails; ends with an error if something does."""
    with spark_session() as spark, _database(FLAVOURS[flavour].server) as url:
        ground = Ground(folder=Path(tempfile.mkdtemp(prefix="tidegate-matrix-")), spark=spark, url=url)
        failures = replay(flavour, format, shape, steps, ground)
        print(*failures or ["nothing fails"], f"the project: {ground.folder}", sep="\n")
    if failures:
        raise SystemExit(1)


@contextmanager
def _database(server: str | None) -> Iterator[str]:
    if server is None:
        yield ""
        return
    with ExitStack() as held:
        if server == "kafka":
            yield new_url(server, held.enter_context(broker()))
            return
        found = PostgresServer.new() if server == "postgres" else MariadbServer.new()
        held.callback(found.drop)
        yield new_url(server, found)
