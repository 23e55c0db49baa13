"""Teradata without a server: addresses, errors, types, bounds and whole probes at the driver's border."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
import teradatasql

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
from tidegate.dialects.teradata.address import address_of
from tidegate.dialects.teradata.errors import refused, translate
from tidegate.dialects.teradata.session import SETTINGS, TeradataSession
from tidegate.dialects.teradata.types import column_of, type_of
from tidegate.errors import (
    ColumnMissing,
    ConfigError,
    EdgeUnknown,
    SchemaRefused,
    SourceError,
    SourceMoved,
    SourceRefused,
    SourceUnavailable,
)
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
    for row, text in zip(vectors.postgresql_rows(), vectors.TEXTS, strict=True):
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


@pytest.mark.parametrize(
    ("number", "text", "kind", "words"),
    [
        (3807, "Object 'x' does not exist.", ColumnMissing, "does not exist"),
        (3706, "Syntax error: expected something between", ConfigError, "Syntax error"),
        (5589, "Function 'HASH_MD5' does not exist.", SourceError, "hash_md5 is not installed"),
        (5589, "Function 'SOMETHING' does not exist.", ConfigError, "does not exist"),
        (2631, "Transaction aborted due to deadlock.", SourceUnavailable, "deadlock"),
        (2652, "Operation not allowed: x is being Loaded.", SourceUnavailable, "being loaded"),
        (2828, "Request was rolled back during system recovery.", SourceUnavailable, "restart"),
        (2646, "No more spool space in loader.", SourceError, "spool space"),
        (3798, "A column or character expression is larger than the max size.", SourceError, "longer than a VARCHAR"),
        (2616, "Numeric overflow 4711 hunter2", SourceError, "error 2616"),
    ],
)
def test_errors_name_no_value(number: int, text: str, kind: type, words: str) -> None:
    found = translate("dwh", "loader", error(number, text))
    assert type(found) is kind
    assert words in str(found)
    assert "hunter2" not in str(found)
    assert "gosqldriver" not in f"{found}{found.hint}"
    assert found.retryable == (kind is SourceUnavailable)


def test_a_missing_grant_is_named() -> None:
    text = "The user does not have SELECT access to SALES.ORDERS."
    assert "`GRANT SELECT ON SALES.ORDERS TO loader`" in translate("dwh", "loader", error(3523, text)).hint


def test_failed_logins() -> None:
    login = error(8017, "The UserId, Password or Account is invalid.")
    assert isinstance(refused("dwh", "h:443", login), SourceRefused)
    assert "refused the login" in str(refused("dwh", "h:443", login))
    text = "[Version 20] [Teradata SQL Driver] [Error 519] x509: certificate signed by unknown authority"
    unverified = refused("dwh", "h:443", teradatasql.OperationalError(text))
    assert "could not be verified" in str(unverified)
    assert not unverified.retryable


@pytest.mark.parametrize(
    ("host", "words"), [("127.0.0.1", "connection refused|no connection"), ("nowhere.invalid", "unknown host")]
)
def test_unreachable_by_the_real_driver(host: str, words: str) -> None:
    url = f"teradata://me:s3cr3t@{host}:1/x?sslmode=disable&connect_timeout=3"
    with pytest.raises(SourceUnavailable, match=f"{host}:1 cannot be reached: ({words})") as found:
        Teradata().open(Connection(name="dwh", url=url))
    assert found.value.retryable
    assert "s3cr3t" not in f"{found.value}{found.value.hint}"


def test_beyond_this_machine_the_server_is_verified() -> None:
    found = address_of(Connection(name="dwh", url="teradata://me:p%40ss@db.example/SHOP"))
    arguments = found.arguments()
    assert (arguments["sslmode"], arguments["https_port"], arguments["sslca"]) == (
        "VERIFY-FULL",
        "443",
        found.authorities,
    )
    assert "dbs_port" not in arguments
    jdbc = found.jdbc(SETTINGS)
    assert jdbc.url.startswith(
        "jdbc:teradata://db.example/DATABASE=SHOP,TMODE=ANSI,SSLMODE=VERIFY-FULL,HTTPS_PORT=443,"
    )
    assert f"SSLCA={found.authorities}" in jdbc.url
    assert jdbc.properties["password"] == "p@ss"
    assert "p@ss" not in f"{found}{jdbc.url}"
    plain = Connection(name="dwh", url="teradata://me@db.example/SHOP?sslmode=disable")
    assert address_of(plain).arguments()["dbs_port"] == "1025"
    assert "may read and change" in Teradata().in_the_clear(plain)
    assert address_of(Connection(name="dwh", url="teradata://me@127.0.0.1/SHOP")).arguments()["sslmode"] == "PREFER"


@pytest.mark.parametrize(
    ("native", "spark"),
    [
        ("BYTEINT", "int"),
        ("DECIMAL(12,4)", "decimal(12,4)"),
        ("NUMBER(10)", "decimal(10,0)"),
        ("NUMBER", None),
        ("CHAR(5) CHARACTER SET LATIN NOT CASESPECIFIC", "string"),
        ("TIMESTAMP(0)", "timestamp_ntz"),
        ("TIMESTAMP(6) WITH TIME ZONE", "timestamp"),
        ("TIME(6) WITH TIME ZONE", None),
        ("INTERVAL DAY(2)", None),
        ("PERIOD(DATE)", None),
    ],
)
def test_types(native: str, spark: str | None) -> None:
    found = type_of(native)
    assert (found and found.spark) == spark


def test_a_type_that_is_stated_is_that_of_the_column() -> None:
    assert column_of("x", ("CLOB(100)", True), None) == "CLOB(100)"
    with pytest.raises(SchemaRefused, match="cannot be read as 'text'"):
        column_of("x", ("CLOB(100)", True), "text")


def test_texts_are_as_long_in_a_row_as_they_are_declared() -> None:
    """Else a few of them would be longer together than a VARCHAR can be."""
    declared = Column(name="x", type=TEXT, native="VARCHAR(20) CHARACTER SET UNICODE")
    assert Teradata().escaped("x", declared) == "CAST(oreplace(oreplace(x, '~', '~0'), '|', '~1') AS varchar(40))"
    assert Teradata().seek("x", declared, ["it's"]) == "x IN ('it''s')"
