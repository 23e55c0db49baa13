"""Every flavour of every source of the matrix, made for real."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matrix import databases, files, lake_tables, logs, simulated_tables, snowflake_tables, topics, trino_tables, views
from matrix.model import View
from matrix.play import Place
from matrix.shapes import OWN_LOGS, Shape, shapes
from matrix.sqlserver_logs import LoggedTable
from tidegate.dialects.snowflake import Snowflake
from tidegate.dialects.sqlserver import SqlServer

FORMATS = ("iceberg", "delta")
DRIVERS = {"snowflake_server": Snowflake.jars, "sqlserver_logs": SqlServer.jars}
"""By fixture, drivers that Spark gets late."""


@dataclass(frozen=True, kw_only=True)
class Ground:
    """What a place is made on: a folder, a session, and the server and the URL of a new database in it, if needed."""

    folder: Path
    spark: Any
    url: str = ""
    server: Any = None


@dataclass(frozen=True, kw_only=True)
class Flavour:
    """One flavour of a source, as `tidegate.engine.assemble.combinations` names it, and how one is made.

    Args:
        kin: flavours of one kin are shared out: each shape of their source is run on one of them, by turns.
        takes: the shapes that are run on it.
        server: the fixture that is needed.
        view: what streams see of it, where its strategy alone does not say.
        widens: it can get a column more.
        restores: a copy of it can be put back.
        states: its files hold texts, whose types are stated.
        parallel: how many of its streams are loaded at a time; a driver that Spark gets late is known to one thread.
        blanks: a text without a character is no NULL.
        narrow: its timestamps are nanoseconds, which Arrow reads from 1678 to 2261, and Spark not just before 1970.
    """

    source: str
    name: str
    kin: str
    make: Callable[[Ground], Place]
    takes: Callable[[Shape], bool] = lambda _: True
    server: str | None = None
    view: View | None = None
    widens: bool = True
    restores: bool = False
    states: bool = False
    parallel: int = 2
    blanks: bool = True
    narrow: bool = False

    def __str__(self) -> str:
        return self.name if self.name == self.kin else f"{self.kin}: {self.name}"

    @property
    def family(self) -> str:
        """Flavours of one family answer alike, but for what their own tests try: dialects, and formats of events."""
        if self.source == "change_log" and self.name not in OWN_LOGS:
            return f"events: {self.name.rpartition(', ')[2]}"
        return "database" if self.source == "database" and self.kin != "ranges" else self.kin

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
                restores=kind in databases.FILES,
            )
    for query in (False, True):
        yield Flavour(
            source="database",
            name="trino query" if query else "trino",
            kin="trino",
            make=lambda on, query=query: trino_tables.TrinoTable(url=on.url, query=query),
            server="trino_server",
        )
        yield Flavour(
            source="database",
            name="snowflake query" if query else "snowflake",
            kin="snowflake",
            make=lambda on, query=query: snowflake_tables.SnowflakeTable(url=on.url, query=query),
            server="snowflake_server",
            parallel=1,
        )
    for kind, table in simulated_tables.PLACES.items():
        for query in (False, True):
            yield Flavour(
                source="database",
                name=f"{kind} query" if query else kind,
                kin=f"simulated {kind}",
                make=lambda _, table=table, query=query: table(query=query),
                server="simulated",
                parallel=1,
                blanks=kind != "oracle",
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
                widens=kind not in files.STATED,
                narrow=kind == "orc",
                states=kind in files.STATED,
                takes=lambda shape: not _reads_files(shape),
            )
            yield Flavour(
                source="files",
                name=name,
                kin="arrivals, named" if named else "arrivals",
                make=lambda on, kind=kind, named=named: files.Arrivals(folder=on.folder, format=kind, named=named),
                widens=kind not in files.STATED,
                narrow=kind == "orc",
                takes=_reads_files,
            )


def _logs() -> Iterator[Flavour]:
    for envelope in logs.ENVELOPES:
        for kind in logs.formats(envelope):
            name = f"{kind} files, {envelope}"
            yield Flavour(
                source="change_log",
                name=name,
                kin=name,
                make=lambda on, kind=kind, envelope=envelope: logs.LogFiles(
                    folder=on.folder, format=kind, envelope=envelope
                ),
                widens=kind not in files.STATED,
                narrow=kind == "orc",
            )
        if not logs.ENVELOPES[envelope].messages:
            for kind in ("iceberg", "delta"):
                name = f"{kind} table, {envelope}"
                yield Flavour(
                    source="change_log",
                    name=name,
                    kin=name,
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
            widens=False,
        )
    yield Flavour(
        source="change_log",
        name="slot",
        kin="slot",
        make=lambda on: databases.Slot(url=on.url),
        server="postgres",
        view=views.slot,
    )


def _own_logs() -> Iterator[Flavour]:
    kinds = {
        "sqlserver capture instance": ({"capture_instance": "dbo_orders"}, views.slot),
        "sqlserver change tracking": ({"change_tracking": True}, views.tracked),
    }
    for name, (log, view) in kinds.items():
        yield Flavour(
            source="change_log",
            name=name,
            kin=name,
            make=lambda on, log=log: LoggedTable(server=on.server.found[on.url], url=on.url, log=log),
            server="sqlserver_logs",
            view=view,
            widens=False,
            parallel=1,
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
    """Of a new database, schema or topic of a server of the tests."""
    match kind:
        case "postgres":
            return server.create_database()
        case "mariadb":
            return server.url(server.create_database())
        case "trino_server" | "snowflake_server":
            return server.create_schema()
        case "simulated":
            return ""
        case "sqlserver_logs":
            return server.create()
        case _:
            return f"{server.bootstrap}/{server.create_topic()}"


FLAVOURS = {str(one): one for some in (_databases, _files, _lake_tables, _logs, _own_logs) for one in some()}
