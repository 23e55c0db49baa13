"""Every flavour of every source of the matrix, made for real."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matrix import databases, files, lake_tables, logs, topics, views
from matrix.model import View
from matrix.play import Place
from matrix.shapes import Shape, shapes


@dataclass(frozen=True, kw_only=True)
class Ground:
    """What a place is made on: a folder, a session, and the URL of a new database where a server is needed."""

    folder: Path
    spark: Any
    url: str = ""


@dataclass(frozen=True, kw_only=True)
class Flavour:
    """One flavour of a source, as `tidegate.engine.combinations` names it, and how one is made.

    Args:
        kin: flavours of one kin are shared out: each shape of their source is run on one of them, by turns.
        takes: the shapes that are run on it.
        server: the fixture that is needed.
        view: what streams see of it, where its strategy alone does not say.
    """

    source: str
    name: str
    kin: str
    make: Callable[[Ground], Place]
    takes: Callable[[Shape], bool] = lambda _: True
    server: str | None = None
    view: View | None = None

    def __str__(self) -> str:
        return f"{self.kin}: {self.name}"

    def shapes(self, table_format: str, seed: int) -> list[Shape]:
        """The shapes that `check` accepts and that are run on it."""
        return [shape for shape in shapes(self.source, self.name, table_format, seed) if self.takes(shape)]


def _reads_files(shape: Shape) -> bool:
    return shape.strategy == "files"


def _by_range(shape: Shape) -> bool:
    return shape.method == "by_range"


def _databases() -> Iterator[Flavour]:
    for kind in databases.PLACES:
        server = {"postgresql": "postgres", "mariadb": "mariadb"}.get(kind)
        for query in (False, True):
            yield Flavour(
                source="database",
                name=f"{kind} query" if query else kind,
                kin="database",
                make=lambda on, kind=kind, query=query: databases.database(kind, on.folder, on.url, query=query),
                takes=lambda shape: not _by_range(shape),
                server=server,
            )
    ranges = databases.PostgresqlRanges
    yield Flavour(
        source="database",
        name="postgresql",
        kin="ranges",
        make=lambda on: ranges(url=on.url),
        takes=_by_range,
        server="postgres",
    )


def _files() -> Iterator[Flavour]:
    for kind in files.FORMATS:
        for named in (False, True):
            name = f"{kind} with file_name" if named else kind
            yield Flavour(
                source="files",
                name=name,
                kin="files",
                make=lambda on, kind=kind, named=named: files.StateFiles(folder=on.folder, format=kind, named=named),
                takes=lambda shape: not _reads_files(shape),
            )
            yield Flavour(
                source="files",
                name=name,
                kin="arrivals, named" if named else "arrivals",
                make=lambda on, kind=kind, named=named: files.Arrivals(folder=on.folder, format=kind, named=named),
                takes=_reads_files,
            )


def _logs() -> Iterator[Flavour]:
    for envelope in logs.ENVELOPES:
        for kind in logs.formats(envelope):
            yield Flavour(
                source="change_log",
                name=f"{kind} files, {envelope}",
                kin=f"log, {envelope}",
                make=lambda on, kind=kind, envelope=envelope: logs.LogFiles(
                    folder=on.folder, format=kind, envelope=envelope
                ),
            )
        if not logs.ENVELOPES[envelope].messages:
            for kind in ("iceberg", "delta"):
                yield Flavour(
                    source="change_log",
                    name=f"{kind} table, {envelope}",
                    kin=f"table of events, {envelope}",
                    make=lambda on, kind=kind, envelope=envelope: lake_tables.EventTable(
                        folder=on.folder, spark=on.spark, format=kind, envelope=envelope
                    ),
                )
    for envelope in topics.ENVELOPES:
        yield Flavour(
            source="change_log",
            name=f"topic, {envelope}",
            kin=f"topic, {envelope}",
            make=lambda on, envelope=envelope: topics.Topic(url=on.url, envelope=envelope),
            server="kafka",
        )
    yield Flavour(
        source="change_log",
        name="slot",
        kin="slot",
        make=lambda on: databases.Slot(url=on.url),
        server="postgres",
        view=views.slot,
    )


def _lake_tables() -> Iterator[Flavour]:
    for kind in ("iceberg", "delta"):
        yield Flavour(
            source="lake_table",
            name=kind,
            kin="lake_table",
            make=lambda on, kind=kind: lake_tables.LakeTable(folder=on.folder, spark=on.spark, format=kind),
        )


def new_url(kind: str, server: Any) -> str:
    """Of a new database or topic of a server of the tests."""
    match kind:
        case "postgres":
            return server.create_database()
        case "mariadb":
            return server.url(server.create_database())
        case _:
            return f"{server.bootstrap}/{server.create_topic()}"


FLAVOURS = {str(one): one for some in (_databases, _files, _lake_tables, _logs) for one in some()}
