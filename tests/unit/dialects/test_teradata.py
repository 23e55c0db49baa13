"""Teradata without a server: addresses, errors, types, bounds and whole probes at the driver's border."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from integration.source import vectors
from support import simulated_teradata as simulated
from support.simulated import SimulatedServer, partitions_are_slices
from support.simulated_teradata import error
from tidegate.core.batch import Latest
from tidegate.core.bounds import Clock
from tidegate.core.column_selection import ColumnSelection
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.grouping import Period, Periods, Prefixes, Steps, Whole
from tidegate.core.ids import Connection
from tidegate.core.schema import BIGINT, TEXT, TIMESTAMP, TIMESTAMPTZ, Column
from tidegate.core.slices import Everything, Range
from tidegate.dialects.teradata import Teradata
from tidegate.dialects.teradata.session import SETTINGS, TeradataSession
from tidegate.errors import ColumnMissing, ConfigError, EdgeUnknown, SourceError, SourceMoved
from tidegate.sources.database.probe import DatabaseProbe

ORDERS = {"id": "BIGINT", "name": "VARCHAR(50) CHARACTER SET UNICODE", "updated_at": "TIMESTAMP(6)"}
VECTORS = {
    "c0": "BIGINT",
    "c1": "DECIMAL(38,4)",
    "c3": "DATE",
    "c4": "TIMESTAMP(6)",
    "c5": "TIMESTAMP(6) WITH TIME ZONE",
    "c6": "VARCHAR(200) CHARACTER SET UNICODE",
    "c7": "CHAR(36) CHARACTER SET LATIN",
    "c8": "VARBYTE(100)",
}
NOW = datetime(2025, 6, 1, 12, tzinfo=UTC)
CHANGED = Column(name="updated_at", type=TIMESTAMP, native="TIMESTAMP(6)")


@pytest.fixture
def server() -> SimulatedServer:
    """A server with a table of orders."""
    found = simulated.server()
    simulated.describe(found, "orders", ORDERS)
    found.database.execute("CREATE TABLE SHOP.orders (id bigint, name text, updated_at timestamp)")
    found.database.executemany(
        "INSERT INTO SHOP.orders VALUES (?, ?, ?)",
        [(1, "ab", NOW), (2, "ab ", NOW), (3, "aB", NOW), (12, None, NOW - timedelta(days=150))],
    )
    found.on("CURRENT_TIMESTAMP", [("2025-06-01 12:00:00.000000",)])
    return found


def opened(server: SimulatedServer) -> TeradataSession:
    return TeradataSession(Teradata(), Connection(name="dwh", url=simulated.URL), connect=server.connect)


def probe_of(session: TeradataSession, table: str = "orders") -> DatabaseProbe:
    return DatabaseProbe(session.dialect, session, session.dialect.relation("SHOP", table), ColumnSelection())


def bound_of(server: SimulatedServer, column: Column = CHANGED, **options):
    session = opened(server)
    asked = {"clock": Clock.APPLICATION, "lag": timedelta(minutes=15), "time_zone": "UTC", **options}
    return session.safe_time_bound(session.dialect.relation("SHOP", "orders"), column, **asked)


def test_the_vectors_have_their_fingerprint(server: SimulatedServer) -> None:
    """But for booleans, a type that Teradata has not."""
    simulated.describe(server, "vectors", VECTORS)
    server.database.execute(
        "CREATE TABLE SHOP.vectors (c0 bigint, c1 decimal(38,4), c3 date, c4 timestamp, c5 timestamptz, c6 text, "
        "c7 text, c8 blob)"
    )
    texts = []
    for row, text in zip(vectors.python_rows(), vectors.TEXTS, strict=True):
        server.database.execute("INSERT INTO SHOP.vectors VALUES (?, ?, ?, ?, ?, ?, ?, ?)", [*row[:2], *row[3:]])
        fields = text.split("|")
        texts.append("|".join([*fields[:2], *fields[3:]]))
    assert probe_of(opened(server), "vectors").fingerprint(Everything()) == Fingerprint.of_texts(texts)


@pytest.mark.parametrize(
    "grouping",
    [
        Whole(),
        Steps(column="id", width=10),
        Periods(column="updated_at", period=Period.MONTH),
        Prefixes(column="name", length=3),
    ],
    ids=["whole_table", "by_integer", "by_date", "by_substr"],
)
def test_partitions_are_the_slices_that_are_read(server: SimulatedServer, grouping) -> None:
    found = partitions_are_slices(probe_of(opened(server)), grouping)
    assert len(found) == {Whole: 1, Steps: 2, Periods: 2, Prefixes: 4}[type(grouping)]


def test_parts_of_equal_size_without_ntile(server: SimulatedServer) -> None:
    asked = probe_of(opened(server)).statements
    whole = Range(cursor=("updated_at",), after=None, upto="2025-12-31 00:00:00.000000")
    server.database.execute("DELETE FROM SHOP.orders")
    moments = [NOW + timedelta(seconds=second) for second in range(10)]
    server.database.executemany("INSERT INTO SHOP.orders VALUES (1, 'x', ?)", [(moment,) for moment in moments])
    found = [row[0] for row in server.answer(asked.borders(whole, 3)) or ()]
    # Rows 0 to 3, 4 to 6 and 7 to 9.
    assert [text[17:19] for text in found] == ["03", "06", "09"]


def test_the_last_row_of_each_key_and_a_few_values(server: SimulatedServer) -> None:
    probe = probe_of(opened(server))
    touched = (Range(cursor=("updated_at",), after=None, upto="2025-02-01 00:00:00.000000"),)
    latest = Latest(key=("id", "updated_at"), order=("updated_at",), touched=touched)
    assert probe.count(Everything(), latest=latest) == 1
    rows = server.answer(probe.statements.values(Everything(), "id", 2)) or []
    assert len({row[0] for row in rows}) == 2


def test_counts_are_ints(server: SimulatedServer) -> None:
    """In ANSI mode they come as decimals."""
    server.on("^SELECT count", [(Decimal(3), "x", Decimal("1.5"))])
    assert [type(value) for value in opened(server).rows("SELECT count(*)")[0]] == [int, str, Decimal]


def test_the_session_asks_again(server: SimulatedServer) -> None:
    session = opened(server)
    assert server.statements == [SETTINGS]
    probe_of(session).fingerprint(Everything())
    session.verify_unchanged()
    server.database.execute("UPDATE SHOP.orders SET name = 'x' WHERE id = 1")
    with pytest.raises(SourceMoved, match=r"SHOP\.orders was written to"):
        session.verify_unchanged()
    assert not session.has_snapshot
    assert not any("LOCKING" in sql for sql in server.statements)
    session.close()
    assert server.closed == 1


def test_rows_that_are_not_committed_are_not_read(server: SimulatedServer) -> None:
    """Of a view that locks its table for access, a load would keep rows that are rolled back."""
    server.on("^EXPLAIN", [("1) First, we lock SHOP.orders_t in view SHOP.orders for",), ("access. 2) Next, …",)])
    with pytest.raises(SourceError, match=r"LOCKING … FOR ACCESS"):
        probe_of(opened(server)).fingerprint(Everything())
    with pytest.raises(SourceError, match=r"LOCKING … FOR ACCESS"):
        bound_of(server)


def test_identity_and_keys(server: SimulatedServer) -> None:
    session = opened(server)
    relation = session.dialect.relation("SHOP", "orders")
    server.on(
        "FROM DBC.IndicesVX",
        [(1, "K ", "Y", "id  ", "N"), (4, "U ", "Y", "name", "Y"), (8, "S ", "N", "updated_at", "N")],
    )
    assert session.identity(relation) == "teradata:127.0.0.1:1025/SHOP.orders/2025-01-31 12:00:00"
    assert session.clock() is None
    assert session.unique_sets(relation) == (frozenset({"id"}),)
    facts = session.facts("SHOP", "orders")
    assert (facts.primary_key, facts.indexes, facts.rows) == (("id",), (("name",), ("updated_at",)), 4)
    assert [column.nullable for column in facts.columns] == [False, True, True]


def test_a_table_that_is_not_there(server: SimulatedServer) -> None:
    server.on('"gone"', error(3807, "Object 'SHOP.gone' does not exist."))
    server.on("FROM DBC.TablesVX", [("SHOP   ", "gong   ")])
    with pytest.raises(ColumnMissing, match=r"did you mean 'SHOP\.gong'"):
        probe_of(opened(server), "gone").schema()


def test_bounds(server: SimulatedServer) -> None:
    assert bound_of(server).upto == "2025-06-01 11:44:59.999999"
    with_zone = Column(name="updated_at", type=TIMESTAMPTZ, native="TIMESTAMP(6) WITH TIME ZONE")
    assert bound_of(server, with_zone, time_zone=None).upto == "2025-06-01 11:44:59.999999"
    with pytest.raises(ConfigError, match="has no time zone"):
        bound_of(server, time_zone=None)
    with pytest.raises(EdgeUnknown, match="does not show since when"):
        bound_of(server, clock=Clock.DATABASE)
    session = opened(server)
    with pytest.raises(EdgeUnknown, match="from a pool of its own"):
        session.safe_sequence_bound(
            session.dialect.relation("SHOP", "orders"), Column(name="id", type=BIGINT), wait=timedelta(0)
        )


def test_texts_are_as_long_in_a_row_as_they_are_declared() -> None:
    """Else a few of them would be longer together than a VARCHAR can be."""
    declared = Column(name="x", type=TEXT, native="VARCHAR(20) CHARACTER SET UNICODE")
    assert Teradata().escaped("x", declared) == "CAST(oreplace(oreplace(x, '~', '~0'), '|', '~1') AS varchar(40))"
    assert Teradata().seek("x", declared, ["it's"]) == "x IN ('it''s')"
