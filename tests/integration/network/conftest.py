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
from pyiceberg.table import Table

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
FIRST, MORE = 2_000, 4_000


def through(url: str, network: Network) -> str:
    """The URL of the same database, on the other side of the network."""
    return url.replace(f":{urlsplit(url).port}/", f":{network.port}/")


@dataclass(kw_only=True)
class Shop:
    """A database with a table of numbered rows."""

    url: str
    run: Callable[[str], object]
    rows: int = 0

    def add(self, rows: int = MORE) -> None:
        """So many more rows."""
        values = ", ".join([f"('{'n' * 100}')"] * rows)
        self.run(f"insert into numbers (name) values {values}")
        self.rows += rows

    @property
    def ids(self) -> list[int]:
        """The numbers of its rows."""
        return list(range(1, self.rows + 1))


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
    """A project on such a shop, whose first rows are loaded over a network that is well."""

    def made(spark: object, shop: Shop, *, connection: str, namespace: str = "shop", **rest) -> Workspace:
        workspace = Workspace(folder=tmp_path)
        stream = {**NUMBERS, "target": f"lake.{namespace}.numbers"}
        workspace.write({"numbers": stream}, connections={"shop": {"url": connection}}, **rest)
        assert run(workspace, spark).outcome is Result.LOADED
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


Read = Callable[[], tuple[list[int], set[str]]]
"""The numbers that the table shows, and its branches, as PyIceberg reads them: no network is between."""


def shown(table: Table) -> tuple[list[int], set[str]]:
    return sorted(table.scan().to_arrow().column("id").to_pylist()), set(table.metadata.refs)


def shown_by(workspace: Workspace, uri: str | None = None) -> tuple[list[int], set[str]]:
    """By the embedded catalog, or by one in a database."""
    if uri is None:
        return shown(workspace.table("shop.numbers"))
    with SqlCatalog("lake", uri=uri, warehouse=f"file://{workspace.folder / 'warehouse'}") as catalog:
        return shown(catalog.load_table(("shop", "numbers")))


def settled(workspace: Workspace, spark: object, shop: Shop, read: Read | None = None) -> None:
    """The table is what the source is, at once or after one run; a further run has nothing to do."""
    read = read or (lambda: shown_by(workspace))
    if read()[0] != shop.ids:
        outcome = run(workspace, spark)
        assert (outcome.error, outcome.verified) == (None, True)
    assert read() == (shop.ids, {"main"})
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
def read(rest_catalog: str, namespace: str) -> Read:
    """By the REST catalog, without the proxy."""

    def found() -> tuple[list[int], set[str]]:
        with RestCatalog("lake", uri=rest_catalog) as catalog:
            return shown(catalog.load_table((namespace, "numbers")))

    return found
