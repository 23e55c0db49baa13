"""A shop on a server behind a bad network, loaded by number into a table that would show a row twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog

from support.catalog_proxy import CatalogProxy, in_front_of
from support.network import Network, between
from support.workspace import Workspace
from tidegate.core.outcome import Outcome, Result
from tidegate.engine.events import Event, Moment, Stage

NUMBERS = {
    "source": {"connection": "shop", "table": "numbers"},
    "target": "lake.shop.numbers",
    "strategy": {"kind": "sequence", "column": "id"},
    "write": "append",
}
FIRST, ALL = 2_000, 6_000


def through(url: str, network: Network) -> str:
    """The URL of the same database, on the other side of the network."""
    return url.replace(f":{urlsplit(url).port}/", f":{network.port}/")


@dataclass(frozen=True, kw_only=True)
class Shop:
    """A database with a table of numbered rows, the first of which are there."""

    url: str
    run: Callable[[str], object]

    def add(self, rows: int) -> None:
        """So many more rows."""
        values = ", ".join([f"('{'n' * 100}')"] * rows)
        self.run(f"insert into numbers (name) values {values}")


@pytest.fixture
def network(shop: Shop) -> Iterator[Network]:
    """Between whatever asks for it and the server of the shop."""
    port = urlsplit(shop.url).port
    assert port
    with between(port) as made:
        yield made


@pytest.fixture
def engine() -> str:
    """The database of the shop."""
    return "postgresql"


@pytest.fixture
def shop(engine: str, request: pytest.FixtureRequest) -> Shop:
    """On a server of the session."""
    if engine == "postgresql":
        url, key = request.getfixturevalue("pg_url"), "bigint generated always as identity"

        def run(statement: str) -> None:
            with psycopg.connect(url, autocommit=True) as admin:
                admin.execute(statement.encode())
    else:
        server, name = request.getfixturevalue("mariadb"), request.getfixturevalue("maria_database")
        url, key = server.url(name), "bigint auto_increment"

        def run(statement: str) -> None:
            server.run(statement, database=name)

    run(f"create table numbers (id {key} primary key, name text)")
    made = Shop(url=url, run=run)
    made.add(FIRST)
    return made


@pytest.fixture
def project(tmp_path: Path) -> Callable[..., Workspace]:
    """A project on such a shop, of which the first rows are loaded over a network that is well, and more have come."""

    def made(spark: object, shop: Shop, *, connection: str, namespace: str = "shop", **rest) -> Workspace:
        workspace = Workspace(folder=tmp_path)
        stream = {**NUMBERS, "target": f"lake.{namespace}.numbers"}
        workspace.write({"numbers": stream}, connections={"shop": {"url": connection}}, **rest)
        assert run(workspace, spark).outcome is Result.LOADED
        shop.add(ALL - FIRST)
        return workspace

    return made


def run(workspace: Workspace, spark: object, **options) -> Outcome:
    return workspace.run(spark=spark, **options).streams[0]


def at(stage: Stage, moment: Moment, do: Callable[[], object]) -> Callable[[Event], None]:
    """Does something at the first event of that kind."""
    done: list[Event] = []

    def listen(event: Event) -> None:
        if (event.stage, event.moment) == (stage, moment) and not done:
            done.append(event)
            do()

    return listen


def table_ids(workspace: Workspace, uri: str | None = None, *, settled: bool = True) -> list[int]:
    """What PyIceberg reads, which no network is between; the next load drops the branch of one that failed."""
    if uri is None:
        found = workspace.table("shop.numbers")
    else:
        location = f"file://{workspace.folder / 'warehouse'}"
        with SqlCatalog("lake", uri=uri, warehouse=location) as catalog:
            found = catalog.load_table(("shop", "numbers"))
    assert not settled or set(found.metadata.refs) == {"main"}, "a branch was left behind"
    return sorted(found.scan().to_arrow().column("id").to_pylist())


def settles(workspace: Workspace, spark: object, uri: str | None = None) -> None:
    """One run makes the table what the source is, and the next has nothing to do."""
    outcome = run(workspace, spark)
    assert outcome.error is None, outcome.error
    assert outcome.verified
    assert table_ids(workspace, uri) == list(range(1, ALL + 1))
    assert run(workspace, spark).outcome is Result.UNCHANGED


def exact_again(workspace: Workspace, spark: object, uri: str | None = None) -> None:
    """The table is what the source is, at once or after one run; a further run has nothing to do."""
    if table_ids(workspace, uri, settled=False) != list(range(1, ALL + 1)):
        settles(workspace, spark, uri)
        return
    outcome = run(workspace, spark)
    assert (outcome.error, outcome.outcome) == (None, Result.UNCHANGED)


@pytest.fixture
def proxy(rest_catalog: str) -> Iterator[CatalogProxy]:
    """Between Tidegate and a REST catalog."""
    with in_front_of(rest_catalog) as made:
        yield made


@pytest.fixture
def namespace(tmp_path: Path) -> str:
    """One catalog serves all tests, so each has a namespace of its own."""
    return f"n{abs(hash(str(tmp_path)))}"


@pytest.fixture
def read(rest_catalog: str, namespace: str) -> Callable[[], tuple[list[int], set[str]]]:
    """The numbers that the table shows, and its branches, as PyIceberg reads them without the proxy."""

    def found() -> tuple[list[int], set[str]]:
        with RestCatalog("lake", uri=rest_catalog) as catalog:
            table = catalog.load_table((namespace, "numbers"))
        return sorted(table.scan().to_arrow().column("id").to_pylist()), set(table.metadata.refs)

    return found


def settled(workspace: Workspace, spark: object, read: Callable[[], tuple[list[int], set[str]]]) -> None:
    """One run makes the table what the source is, and the next has nothing to do."""
    if read() != (list(range(1, ALL + 1)), {"main"}):
        outcome = run(workspace, spark)
        assert outcome.error is None, outcome.error
    assert read() == (list(range(1, ALL + 1)), {"main"})
    assert run(workspace, spark).outcome is Result.UNCHANGED
