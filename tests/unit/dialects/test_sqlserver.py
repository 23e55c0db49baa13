"""SQL Server without a server: addresses, errors, types, safe bounds and whole probes at the driver's border."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from integration.source import vectors
from support import simulated_sqlserver as simulated
from support.simulated import SimulatedServer, partitions_are_slices
from tidegate.core.batch import Latest
from tidegate.core.bounds import Clock, TimeBound
from tidegate.core.column_selection import ColumnSelection
from tidegate.core.grouping import Period, Periods, Prefixes, Steps
from tidegate.core.ids import Connection
from tidegate.core.position import Position
from tidegate.core.schema import BIGINT, DATE, TIMESTAMP, TIMESTAMPTZ, Column
from tidegate.core.slices import Everything, Keys, Partition, Range
from tidegate.dialects.sqlserver import SqlServer
from tidegate.dialects.sqlserver.session import SETTINGS, SqlServerSession
from tidegate.errors import ColumnMissing, ConfigError, EdgeUnknown, SchemaRefused, SourceError, SourceMoved
from tidegate.sources.database.described import taken
from tidegate.sources.database.probe import DatabaseProbe
from tidegate.strategies.watermark import Watermark

VECTORS = {
    "c0": "bigint",
    "c1": "decimal(38,4)",
    "c2": "bit",
    "c3": "date",
    "c4": "datetime2(6)",
    "c5": "datetimeoffset(7)",
    "c6": "nvarchar(max)",
    "c7": "uniqueidentifier",
    "c8": "varbinary(max)",
}
ORDERS = {"id": "bigint", "name": "nvarchar(50)", "updated_at": "datetime2(7)", "version": "timestamp"}
ABOUT = (3, 16, "(UTC) Coordinated Universal Time", 1, 0, 0, 0)
NOW = datetime(2025, 6, 1, 12, tzinfo=UTC)
CHANGED = Column(name="updated_at", type=TIMESTAMP, native="datetime2(7)")


def micros(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@pytest.fixture
def server() -> SimulatedServer:
    """A server with a table of orders."""
    found = simulated.server()
    simulated.describe(found, "orders", ORDERS)
    found.database.execute("CREATE TABLE dbo.orders (id bigint, name text, updated_at timestamp, version bigint)")
    found.database.executemany(
        "INSERT INTO dbo.orders VALUES (?, ?, ?, ?)",
        [(1, "ab", NOW, 7), (2, "ab ", NOW, 8), (3, "aB", NOW, 9), (12, None, NOW - timedelta(days=40), 10)],
    )
    found.on("sysutcdatetime", lambda _: [(micros(NOW),)])
    return found


def opened(server: SimulatedServer, url: str = simulated.URL) -> SqlServerSession:
    return SqlServerSession(SqlServer(), Connection(name="erp", url=url), connect=server.connect)


def probe_of(session: SqlServerSession, table: str = "orders") -> DatabaseProbe:
    return DatabaseProbe(session.dialect, session, session.dialect.relation("dbo", table), ColumnSelection())


def bound_of(server: SimulatedServer, column: Column = CHANGED, **options):
    session = opened(server)
    asked = {"clock": Clock.DATABASE, "lag": timedelta(0), "time_zone": None, **options}
    return session.safe_time_bound(session.dialect.relation("dbo", "orders"), column, **asked)


def test_the_vectors_have_their_fingerprint(server: SimulatedServer) -> None:
    simulated.describe(server, "vectors", VECTORS)
    server.database.execute(
        "CREATE TABLE dbo.vectors (c0 bigint, c1 decimal(38,4), c2 boolean, c3 date, c4 timestamp, c5 timestamptz, "
        "c6 text, c7 uuid, c8 blob)"
    )
    server.database.executemany("INSERT INTO dbo.vectors VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", vectors.python_rows())
    with_casts = probe_of(opened(server), "vectors")
    assert [column.type.spark for column in with_casts.schema()][3:6] == ["date", "timestamp_ntz", "timestamp"]
    assert with_casts.fingerprint(Everything()) == vectors.FINGERPRINT


@pytest.mark.parametrize(
    "grouping",
    [
        Steps(column="id", width=10),
        Periods(column="updated_at", period=Period.MONTH),
        Prefixes(column="name", length=3),
    ],
    ids=["by_integer", "by_date", "by_substr"],
)
def test_partitions_are_the_slices_that_are_read(server: SimulatedServer, grouping) -> None:
    """Each bucket's fingerprint is that of the rows of its condition, blanks at the end of a text included."""
    found = partitions_are_slices(probe_of(opened(server)), grouping)
    assert len(found) == {Steps: 2, Periods: 2, Prefixes: 4}[type(grouping)]
    for part in found:
        assert part.label == "~N" or not isinstance(grouping, Prefixes) or part.prefix in {"ab", "ab ", "aB"}


def test_texts_are_compared_with_their_blanks(server: SimulatedServer) -> None:
    """The server itself takes 'ab' and 'ab ' for equal: a character stands behind each text that is compared."""
    asked = probe_of(opened(server)).statements
    for part in (
        Partition(column="name", label="ab", prefix="ab", length=2),
        Keys(columns=("name",), values=(("ab",),)),
    ):
        *_, compared = re.split(r" AND ", asked.condition(part))
        assert compared.count("+ char(1)") == 2


def test_the_last_row_of_each_key(server: SimulatedServer) -> None:
    probe = probe_of(opened(server))
    touched = (Range(cursor=("updated_at",), after=None, upto="2025-05-01 00:00:00.000000"),)
    latest = Latest(key=("id", "name"), order=("updated_at",), touched=touched)
    assert probe.count(Everything(), latest=latest) == 0  # its name is NULL, and equals nothing
    assert probe.count(Everything(), latest=Latest(key=("id",), order=("updated_at",), touched=touched)) == 1
    assert "EXISTS (SELECT 1" in server.statements[-1]


def test_the_session_takes_one_snapshot_and_asks_again(server: SimulatedServer) -> None:
    session = opened(server)
    probe = probe_of(session)
    probe.fingerprint(Everything())
    assert server.statements[0] == SETTINGS
    begun = server.statements.index("BEGIN TRANSACTION")
    assert server.statements[begun + 1] == "SELECT TOP (1) 1 FROM [dbo].[orders]"
    session.verify_unchanged()
    server.database.execute("UPDATE dbo.orders SET name = 'x' WHERE id = 1")
    with pytest.raises(SourceMoved, match=r"dbo\.orders was written to"):
        session.verify_unchanged()
    # The second look is in a snapshot of its own.
    assert server.statements.count("BEGIN TRANSACTION") == server.statements.count("COMMIT TRANSACTION") + 1 == 3
    session.close()
    assert server.closed == 1


def test_a_database_without_snapshots_is_refused(server: SimulatedServer) -> None:
    server.on("FROM sys.databases", [(0, "READ_WRITE", "loader")])
    with pytest.raises(SourceError, match="allows no snapshots") as found:
        opened(server)
    assert "`ALTER DATABASE [shop] SET ALLOW_SNAPSHOT_ISOLATION ON`" in found.value.hint
    assert server.closed == 1


def test_masked_values_are_not_loaded(server: SimulatedServer) -> None:
    server.on("is_masked", [("name",)])
    with pytest.raises(SchemaRefused, match="masks 'name'") as found:
        probe_of(opened(server)).schema()
    assert "GRANT UNMASK TO [loader]" in found.value.hint
    probe = DatabaseProbe(
        SqlServer(), opened(server), SqlServer().relation("dbo", "orders"), ColumnSelection(exclude=("name",))
    )
    assert probe.schema().names == ("id", "updated_at", "version")


def test_a_table_that_is_not_there(server: SimulatedServer) -> None:
    server.on("dm_exec_describe", [(None, None, None, 208, "Invalid object name 'dbo.orders'.")])
    server.on("FROM sys.tables", [("dbo", "order")])
    with pytest.raises(ColumnMissing, match=r"did you mean 'dbo\.order'"):
        probe_of(opened(server)).schema()


def test_identity_clock_and_keys(server: SimulatedServer) -> None:
    session = opened(server)
    server.on(
        "FROM sys.indexes AS i\nJOIN sys.index_columns",
        [("pk", 1, 1, "id", 0), ("u", 0, 1, "name", 1), ("v", 0, 1, "version", 0), ("f", 0, 0, "updated_at", 0)],
    )
    relation = session.dialect.relation("dbo", "orders")
    assert session.identity(relation) == "sqlserver:8e3f1b70-0000-4000-8000-000000000001:901578250"
    assert session.clock() == 2001
    assert session.unique_sets(relation) == (frozenset({"id"}), frozenset({"version"}))
    facts = session.facts("dbo", "orders")
    assert facts.primary_key == ("id",)
    assert facts.indexes == (("name",), ("version",), ("updated_at",))
    assert (facts.rows, session.row_bytes(relation), session.estimate(relation, "[id] > 2")) == (1000, 409, 2)


class TestTimeBound:
    """The bound of a column that the server's clock sets."""

    def test_is_the_clock_less_a_second(self, server: SimulatedServer) -> None:
        assert bound_of(server).upto == "2025-06-01 11:59:58.999999"

    def test_is_held_by_whatever_is_open(self, server: SimulatedServer) -> None:
        began = NOW - timedelta(minutes=3)
        server.on("dm_tran_active", [("transaction", 77, 51, "app", micros(began))])
        found = bound_of(server)
        # What the view shows is rounded.
        assert found.upto == "2025-06-01 11:56:59.989999"
        assert "session 51 of login app, in a transaction since 2025-06-01T11:56:59.990000" in found.held_by[0]

    @pytest.mark.parametrize(
        ("native", "kind", "upto"),
        [
            ("smalldatetime", TIMESTAMP, "2025-06-01 11:59:28.999999"),
            ("datetime", TIMESTAMP, "2025-06-01 11:59:58.997999"),
            ("datetime2(0)", TIMESTAMP, "2025-06-01 11:59:58.499999"),
            ("datetimeoffset(7)", TIMESTAMPTZ, "2025-06-01 11:59:58.999999"),
            ("date", DATE, "2025-05-31"),
        ],
    )
    def test_is_lower_where_the_type_rounds(self, server: SimulatedServer, native: str, kind, upto: str) -> None:
        assert bound_of(server, Column(name="updated_at", type=kind, native=native)).upto == upto

    def test_is_unknown_where_others_are_hidden(self, server: SimulatedServer) -> None:
        server.on("serverproperty", [(*ABOUT[:3], 0, 0, 1, 0)])
        with pytest.raises(EdgeUnknown, match="may not see the transactions of others") as found:
            bound_of(server)
        assert "`GRANT VIEW SERVER STATE TO [loader]`" in found.value.hint
        assert not any("dm_tran_active" in sql for sql in server.statements)

    def test_needs_less_in_azure(self, server: SimulatedServer) -> None:
        server.on("serverproperty", [(5, 12, ABOUT[2], 0, 0, 1, 0)])
        assert bound_of(server).upto is not None
        server.on("serverproperty", [(5, 12, ABOUT[2], 0, 0, 0, 0)])
        with pytest.raises(EdgeUnknown) as found:
            bound_of(server)
        assert "`GRANT VIEW DATABASE STATE TO [loader]`" in found.value.hint

    def test_is_unknown_at_a_secondary(self, server: SimulatedServer) -> None:
        server.on("FROM sys.databases", [(0, "READ_ONLY", "loader")])
        with pytest.raises(EdgeUnknown, match="is a secondary"):
            bound_of(server)
        found = bound_of(server, clock=Clock.APPLICATION, lag=timedelta(minutes=15))
        assert found.upto == "2025-06-01 11:44:59.999999"

    def test_needs_a_zone_where_the_server_has_another(self, server: SimulatedServer) -> None:
        server.on("serverproperty", [(3, 15, "(UTC+01:00) Amsterdam, Berlin", 1, 0, 0, 0)])
        with pytest.raises(ConfigError, match="has no time zone"):
            bound_of(server)
        assert bound_of(server, time_zone="Europe/Berlin").upto == "2025-06-01 13:59:58.999999"

    @pytest.mark.parametrize(
        ("version", "words"), [(15, "datepart(tzoffset, sysdatetimeoffset()) - 60"), (16, "AT TIME ZONE")]
    )
    def test_an_hour_that_comes_twice_is_the_earlier_one(
        self, server: SimulatedServer, version: int, words: str
    ) -> None:
        server.on("serverproperty", [(3, version, "(UTC+01:00) Amsterdam, Berlin", 1, 0, 0, 0)])
        bound_of(server, time_zone="Europe/Berlin")
        assert sum(words in sql for sql in server.statements) == 1


class TestRowVersion:
    """The bound of a column whose numbers the server hands out, and knows which are still being written."""

    COLUMN = Column(name="version", type=BIGINT, native="timestamp", nullable=False)

    def test_lies_below_the_least_that_is_open(self, server: SimulatedServer) -> None:
        server.on("min_active_rowversion", [(2002,)])
        server.on("serverproperty", [(*ABOUT[:3], 0, 0, 0, 0)])  # needs no grant
        assert bound_of(server, self.COLUMN).upto == "2001"

    def test_no_lag_and_no_secondary(self, server: SimulatedServer) -> None:
        with pytest.raises(ConfigError, match="are no times"):
            bound_of(server, self.COLUMN, lag=timedelta(minutes=1))
        server.on("FROM sys.databases", [(0, "READ_ONLY", "loader")])
        with pytest.raises(EdgeUnknown, match="is a secondary"):
            bound_of(server, self.COLUMN)

    def test_no_lookback(self, server: SimulatedServer) -> None:
        server.on("min_active_rowversion", [(2002,)])
        session = opened(server)
        relation = session.dialect.relation("dbo", "orders")
        assert taken(session, relation, ColumnSelection(), TimeBound(column="version")).upto == "2001"
        with pytest.raises(ConfigError, match="`lookback` means nothing"):
            taken(session, relation, ColumnSelection(), TimeBound(column="version", lookback=timedelta(hours=1)))

    def test_is_followed_by_a_watermark(self, server: SimulatedServer) -> None:
        """Each load reads the versions between two bounds, and a row that changes again comes again."""
        strategy = Watermark(column="version")
        least = iter([9, 12])
        server.on("min_active_rowversion", lambda _: [(next(least),)])
        server.on("FROM sys.indexes AS i\nJOIN sys.index_columns", [("pk", 1, 1, "id", 0)])
        probe = self.probe(server, strategy)
        first = strategy.detect(probe, None)
        assert [(part.after, part.upto) for part in first.slices] == [(None, "8")]
        witness = probe.witness(("version",), None)
        server.database.execute("UPDATE dbo.orders SET version = 11 WHERE id = 1")
        since = Position(sequence=1, load_id="x", kind="watermark", state=first.state, witness=witness)
        again = self.probe(server, strategy)
        second = strategy.detect(again, since)
        assert [(part.after, part.upto, second.rows) for part in second.slices] == [("8", "11", 3)]
        assert again.witness(("version",), since)["newest"]["rows"][0] == ["1", "11"]

    def probe(self, server: SimulatedServer, strategy: Watermark) -> DatabaseProbe:
        session = opened(server)
        relation = session.dialect.relation("dbo", "orders")
        edge = taken(session, relation, ColumnSelection(), strategy.bound_request)
        return DatabaseProbe(
            session.dialect, session, relation, ColumnSelection(), bound=strategy.bound_request, edge=edge
        )

    def test_is_no_sequence(self, server: SimulatedServer) -> None:
        session = opened(server)
        with pytest.raises(EdgeUnknown, match="changes with every update") as found:
            session.safe_sequence_bound(session.dialect.relation("dbo", "orders"), self.COLUMN, wait=timedelta(0))
        assert "watermark" in found.value.hint


class TestSequenceBound:
    """The bound of an IDENTITY column."""

    def bound(self, server: SimulatedServer, wait: timedelta = timedelta(0)):
        session = opened(server)
        column = Column(name="id", type=BIGINT, native="bigint")
        return session.safe_sequence_bound(session.dialect.relation("dbo", "orders"), column, wait=wait)

    def test_is_the_greatest_once_nobody_writes(self, server: SimulatedServer) -> None:
        server.on("sys.identity_columns", [(1, False)])
        assert self.bound(server).upto == "12"

    def test_waits_for_those_who_were_there(self, server: SimulatedServer) -> None:
        server.on("sys.identity_columns", [(1, False)])
        looks = iter([[1, 2], [2, 3], [3]])
        server.on(
            "dm_tran_active", lambda _: [("transaction", number, 50, "app", micros(NOW)) for number in next(looks)]
        )
        assert self.bound(server, timedelta(seconds=5)).upto == "12"

    def test_is_none_while_they_write(self, server: SimulatedServer) -> None:
        server.on("sys.identity_columns", [(1, False)])
        server.on("dm_tran_active", [("transaction", 1, 50, "app", micros(NOW))])
        found = self.bound(server)
        assert found.upto is None
        assert "session 50 of login app" in found.held_by[0]

    @pytest.mark.parametrize(
        ("rows", "words"), [([], "is not IDENTITY"), ([(-1, False)], "counts by -1"), ([(1, True)], "REPLICATION")]
    )
    def test_is_unknown_where_numbers_come_in_any_order(self, server: SimulatedServer, rows, words: str) -> None:
        server.on("sys.identity_columns", rows)
        with pytest.raises(EdgeUnknown, match=words):
            self.bound(server)
