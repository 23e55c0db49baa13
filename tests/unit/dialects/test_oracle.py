"""Oracle without a server: addresses, errors, types, safe bounds and whole probes at the driver's border."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import oracledb
import pytest

from integration.source import vectors
from support import simulated_oracle as simulated
from support.simulated import SimulatedServer, partitions_are_slices
from support.simulated_oracle import NUMBER, VARCHAR, column, error
from tidegate.core.batch import Latest
from tidegate.core.bounds import Clock
from tidegate.core.column_selection import ColumnSelection
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.grouping import Period, Periods, Prefixes, Steps, Whole
from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import Relation
from tidegate.core.schema import BIGINT, DATE, TEXT, TIMESTAMP, TIMESTAMPTZ, Column, decimal
from tidegate.core.slices import Everything, Range
from tidegate.dialects.oracle import Oracle
from tidegate.dialects.oracle.session import SETTINGS, OracleSession
from tidegate.errors import ColumnMissing, ConfigError, EdgeUnknown, SchemaRefused, SourceError, SourceUnavailable
from tidegate.sources.database.probe import DatabaseProbe

ORDERS = [
    column("ID", NUMBER, precision=18, null_ok=False),
    column("NAME", VARCHAR),
    column("PRICE", NUMBER, scale=-127),
    column("UPDATED_AT", oracledb.DB_TYPE_TIMESTAMP, scale=6),
    column("DAY", oracledb.DB_TYPE_DATE),
]
VECTORS = [
    column("C0", NUMBER, precision=18),
    column("C1", NUMBER, precision=38, scale=4),
    column("C2", NUMBER, precision=1),
    column("C3", oracledb.DB_TYPE_DATE),
    column("C4", oracledb.DB_TYPE_TIMESTAMP, scale=6),
    column("C5", oracledb.DB_TYPE_TIMESTAMP_TZ, scale=6),
    column("C6", VARCHAR),
    column("C7", VARCHAR),
    column("C8", oracledb.DB_TYPE_RAW, size=200),
]
NOW = datetime(2025, 6, 1, 12, tzinfo=UTC)
CHANGED = Column(name="UPDATED_AT", type=TIMESTAMP, native="TIMESTAMP(6)")
SECONDS = str(int(NOW.timestamp()))


@pytest.fixture
def server() -> SimulatedServer:
    """A server with a table of orders."""
    found = simulated.server()
    found.describe(r'"ORDERS" WHERE 1 = 0', ORDERS)
    found.database.execute(
        "CREATE TABLE SHOP.ORDERS (ID bigint, NAME text, PRICE decimal(20,4), UPDATED_AT timestamp, DAY timestamp)"
    )
    found.database.executemany(
        "INSERT INTO SHOP.ORDERS VALUES (?, ?, ?, ?, ?)",
        [
            (1, "ab", 1, NOW, NOW),
            (2, "ab ", 2, NOW, NOW),
            (3, "aB", 3, NOW, NOW),
            (12, None, 4, NOW - timedelta(days=150), NOW),
        ],
    )
    found.on("sys_extract_utc", [(SECONDS,)])
    return found


def opened(server: SimulatedServer) -> OracleSession:
    return OracleSession(Oracle(), Connection(name="erp", url=simulated.URL), connect=server.connect)


def probe_of(session: OracleSession, table: str = "ORDERS", **types: str) -> DatabaseProbe:
    selection = ColumnSelection(types=types)
    return DatabaseProbe(session.dialect, session, session.dialect.relation("SHOP", table), selection)


def bound_of(server: SimulatedServer, column: Column = CHANGED, **options):
    session = opened(server)
    asked = {"clock": Clock.DATABASE, "lag": timedelta(0), "time_zone": "UTC", **options}
    return session.safe_time_bound(session.dialect.relation("SHOP", "ORDERS"), column, **asked)


def test_the_vectors_have_their_fingerprint(server: SimulatedServer) -> None:
    """But for empty texts, which are NULL there."""
    server.describe(r'"VECTORS" WHERE 1 = 0', VECTORS)
    server.database.execute(
        "CREATE TABLE SHOP.VECTORS (C0 bigint, C1 decimal(38,4), C2 integer, C3 date, C4 timestamp, C5 timestamptz, "
        "C6 text, C7 text, C8 blob)"
    )
    texts = []
    for row, text in zip(vectors.python_rows(), vectors.TEXTS, strict=True):
        c2 = None if row[2] is None else int(row[2] == "True")
        server.database.execute(
            "INSERT INTO SHOP.VECTORS VALUES (?, ?, ?, ?, ?, ?, nullif(?, ''), ?, ?)", [*row[:2], c2, *row[3:]]
        )
        fields = text.split("|")
        fields[6] = fields[6] or "~N"
        texts.append("|".join(fields))
    probe = probe_of(opened(server), "VECTORS", C2="boolean", C3="date")
    assert probe.fingerprint(Everything()) == Fingerprint.of_texts(texts)


@pytest.mark.parametrize(
    "grouping",
    [
        Whole(),
        Steps(column="ID", width=10),
        Periods(column="UPDATED_AT", period=Period.MONTH),
        Prefixes(column="NAME", length=3),
    ],
    ids=["whole_table", "by_integer", "by_date", "by_substr"],
)
def test_partitions_are_the_slices_that_are_read(server: SimulatedServer, grouping) -> None:
    found = partitions_are_slices(probe_of(opened(server)), grouping)
    assert len(found) == {Whole: 1, Steps: 2, Periods: 2, Prefixes: 4}[type(grouping)]


def test_the_last_row_of_each_key(server: SimulatedServer) -> None:
    probe = probe_of(opened(server))
    touched = (Range(cursor=("UPDATED_AT",), after=None, upto="2025-02-01 00:00:00.000000"),)
    latest = Latest(key=("ID", "DAY"), order=("UPDATED_AT",), touched=touched)
    assert probe.count(Everything(), latest=latest) == 1


def test_a_value_that_does_not_fit_what_is_stated(server: SimulatedServer) -> None:
    server.database.execute("UPDATE SHOP.ORDERS SET PRICE = 1.25 WHERE ID = 1")
    fits = probe_of(opened(server), PRICE="decimal(10,2)")
    assert fits.schema().find("PRICE").type == decimal(10, 2)
    assert fits.fingerprint(Everything()).rows == 4
    with pytest.raises(SchemaRefused, match="column 'PRICE' holds a value that does not fit"):
        probe_of(opened(server), PRICE="bigint").fingerprint(Everything())
    with pytest.raises(SchemaRefused, match="column 'DAY' holds a value that does not fit date"):
        probe_of(opened(server), DAY="date").fingerprint(Everything())


def test_every_connection_reads_at_one_number(server: SimulatedServer) -> None:
    session = opened(server)
    assert server.statements == list(SETTINGS)
    probe = probe_of(session)
    probe.fingerprint(Everything())
    at = "SYS.DBMS_FLASHBACK.ENABLE_AT_SYSTEM_CHANGE_NUMBER(4711);"
    assert f"BEGIN {at} END;" in server.statements
    assert len(server.connections) == 2
    begins = session.jdbc().properties["sessionInitStatement"]
    assert begins.endswith(f" {at} END;")
    assert "EXECUTE IMMEDIATE 'ALTER SESSION SET TIME_ZONE = ''UTC''';" in begins
    assert session.has_snapshot
    session.close()
    assert server.closed == 2


def test_without_the_package_nothing_is_read(server: SimulatedServer) -> None:
    server.on(
        "get_system_change", error(904, 'ORA-00904: "DBMS_FLASHBACK"."GET_SYSTEM_CHANGE_NUMBER": invalid identifier')
    )
    with pytest.raises(SourceError, match="may not use DBMS_FLASHBACK") as found:
        probe_of(opened(server)).fingerprint(Everything())
    assert "`GRANT EXECUTE ON SYS.DBMS_FLASHBACK TO LOADER`" in found.value.hint


def test_a_session_that_cannot_be_set_back_is_closed(server: SimulatedServer) -> None:
    server.on("ENABLE_AT_SYSTEM", error(8180, "ORA-08180: no snapshot found based on specified time"))
    with pytest.raises(SourceUnavailable, match="no longer keeps the rows") as found:
        probe_of(opened(server)).fingerprint(Everything())
    assert found.value.retryable
    assert "UNDO_RETENTION" in found.value.hint
    assert server.closed == 1


def test_identity_and_keys(server: SimulatedServer) -> None:
    session = opened(server)
    relation = session.dialect.relation("SHOP", "ORDERS")
    server.on("CON_NAME", [("SHOP/PDB1",)])
    server.on("FROM all_objects", [("73214",)])
    server.on(
        "FROM all_constraints c\nJOIN all_cons_columns k .*AND c.owner",
        [("P", "PK", "ID", "N"), ("U", "U1", "NAME", "Y"), ("U", "U2", "ID", "N"), ("U", "U2", "DAY", "N")],
    )
    server.on("FROM all_indexes", [("PK", "ID"), ("I", "UPDATED_AT")])
    assert session.identity(relation) == "oracle:SHOP/PDB1:73214"
    assert session.clock() == 4711
    assert session.unique_sets(relation) == (frozenset({"ID"}), frozenset({"ID", "DAY"}))
    facts = session.facts("SHOP", "ORDERS")
    assert (facts.primary_key, facts.indexes, facts.rows) == (("ID",), (("UPDATED_AT",),), 1000)
    assert (session.row_bytes(relation), session.estimate(relation, '"ID" > 2')) == (80, 2)


def test_national_characters_need_a_database_that_has_them(server: SimulatedServer) -> None:
    server.describe(r'"ORDERS" WHERE 1 = 0', [column("N", oracledb.DB_TYPE_NVARCHAR)])
    assert probe_of(opened(server)).schema().names == ("N",)
    server.on("NLS_CHARACTERSET", [("WE8ISO8859P1",)])
    with pytest.raises(SchemaRefused, match="WE8ISO8859P1 does not have every character that 'N' may hold"):
        probe_of(opened(server)).schema()


def test_a_table_that_is_not_there(server: SimulatedServer) -> None:
    server.on('"GONE"', error(942, 'ORA-00942: table or view "SHOP"."GONE" does not exist'))
    server.on("FROM all_tables t", [("SHOP", "GONG")])
    with pytest.raises(ColumnMissing, match=r"did you mean 'SHOP\.GONG'"):
        probe_of(opened(server), "GONE").schema()


class TestTimeBound:
    """The bound of a column that the server's clock sets."""

    def test_is_the_clock_less_five_seconds(self, server: SimulatedServer) -> None:
        assert bound_of(server).upto == "2025-06-01 11:59:54.999998"

    def test_is_held_by_an_open_transaction(self, server: SimulatedServer) -> None:
        server.on(r"gv\$transaction", [("1/5/6/7", 33, 9, "APP", 180)])
        found = bound_of(server)
        assert found.upto == "2025-06-01 11:56:54.999998"
        assert found.held_by == ("session 33,9 of user APP, in a transaction since 2025-06-01T11:56:55+00:00",)

    def test_is_held_by_a_call_that_may_have_taken_the_time(self, server: SimulatedServer) -> None:
        """Its transaction begins with the first row that it changes."""
        server.on(r"FROM gv\$session s WHERE", [("1/33/9", 33, 9, "APP", 600)])
        found = bound_of(server)
        assert found.upto == "2025-06-01 11:49:54.999998"
        assert "session 33,9 of user APP, running since" in found.held_by[0]

    def test_calls_are_looked_at_before_transactions(self, server: SimulatedServer) -> None:
        bound_of(server)
        words = ("sys_extract_utc", "FROM gv$session", "gv$transaction", "2pc")
        asked = (next((word for word in words if word in sql), None) for sql in server.statements)
        assert [word for word in asked if word] == list(words)

    @pytest.mark.parametrize(
        ("native", "kind", "upto"),
        [
            ("DATE", TIMESTAMP, "2025-06-01 11:59:53.999999"),
            ("TIMESTAMP(3)", TIMESTAMP, "2025-06-01 11:59:53.999999"),
            ("TIMESTAMP(9) WITH TIME ZONE", TIMESTAMPTZ, "2025-06-01 11:59:54.999998"),
            ("DATE stated", DATE, "2025-05-31"),
        ],
    )
    def test_is_lower_where_the_type_rounds(self, server: SimulatedServer, native: str, kind, upto: str) -> None:
        assert bound_of(server, Column(name="UPDATED_AT", type=kind, native=native)).upto == upto

    @pytest.mark.parametrize("view", [r"gv\$transaction", r"FROM gv\$session s WHERE", "dba_2pc_pending"])
    def test_is_unknown_where_others_are_hidden(self, server: SimulatedServer, view: str) -> None:
        server.on(view, error(942, "ORA-00942: table or view does not exist"))
        with pytest.raises(EdgeUnknown, match="may not see the transactions of others") as found:
            bound_of(server)
        assert "GRANT SELECT ON SYS.GV_$TRANSACTION TO LOADER" in found.value.hint

    def test_is_unknown_with_transactions_in_doubt(self, server: SimulatedServer) -> None:
        server.on("dba_2pc_pending", [("5.6.7",)])
        with pytest.raises(EdgeUnknown, match=r"5\.6\.7 are in doubt"):
            bound_of(server)

    def test_is_unknown_at_a_standby(self, server: SimulatedServer) -> None:
        server.on("DATABASE_ROLE", [("PHYSICAL STANDBY",)])
        with pytest.raises(EdgeUnknown, match="is a physical standby"):
            bound_of(server)
        found = bound_of(server, clock=Clock.APPLICATION, lag=timedelta(minutes=15))
        assert found.upto == "2025-06-01 11:44:59.999999"

    def test_is_unknown_behind_a_link(self, server: SimulatedServer) -> None:
        """Of a synonym or a view, as the dictionary has it."""
        server.on("FROM all_synonyms", [("FAR.EXAMPLE.COM",)])
        with pytest.raises(EdgeUnknown, match=r"by the link FAR\.EXAMPLE\.COM, and it is not known here") as found:
            bound_of(server)
        assert "clock: application" in found.value.hint
        (asked,) = (sql for sql in server.statements if "FROM all_synonyms" in sql)
        assert asked.count("'SHOP'") == 2
        assert "'PUBLIC'" not in asked
        assert bound_of(server, clock=Clock.APPLICATION, lag=timedelta(minutes=15)).upto

    @pytest.mark.parametrize(
        ("text", "link"),
        [
            ("SELECT * FROM orders@far WHERE name <> 'a@b'", "far"),
            ('SELECT * FROM "SHOP"."ORDERS" @ far.example.com', r"far\.example\.com"),
            ("SELECT name AS \"a@b\" FROM orders WHERE name LIKE '%@%' -- not o@far\n /* nor o@far */", None),
        ],
    )
    def test_a_query_that_names_a_link(self, server: SimulatedServer, text: str, link: str | None) -> None:
        session, asked = opened(server), {"clock": Clock.DATABASE, "lag": timedelta(0), "time_zone": "UTC"}
        query = Relation(sql=f"({text}) q", label="the query")
        if link is None:
            assert session.safe_time_bound(query, CHANGED, **asked).upto
            return
        with pytest.raises(EdgeUnknown, match=f"the query reads another database by the link {link},"):
            session.safe_time_bound(query, CHANGED, **asked)

    def test_needs_a_zone(self, server: SimulatedServer) -> None:
        with pytest.raises(ConfigError, match="has no time zone"):
            bound_of(server, time_zone=None)


class TestSequenceBound:
    """The bound of an identity column."""

    OPTIONS = (
        "START WITH: 1, INCREMENT BY: 1, MAX_VALUE: 9999, MIN_VALUE: 1, CYCLE_FLAG: N, CACHE_SIZE: 20, ORDER_FLAG: N"
    )

    def bound(self, server: SimulatedServer, wait: timedelta = timedelta(0)):
        session = opened(server)
        column = Column(name="ID", type=BIGINT, native="NUMBER(18,0)")
        return session.safe_sequence_bound(session.dialect.relation("SHOP", "ORDERS"), column, wait=wait)

    def test_is_the_greatest_once_nobody_writes(self, server: SimulatedServer) -> None:
        server.on("all_tab_identity_cols", [(self.OPTIONS,)])
        assert self.bound(server).upto == "12"

    def test_a_call_that_ends_may_leave_its_transaction_open(self, server: SimulatedServer) -> None:
        server.on("all_tab_identity_cols", [(self.OPTIONS,)])
        calls = iter([[("1/33/9", 33, 9, "APP", 60)], [("1/33/9", 33, 9, "APP", 0)], [], []])
        server.on(r"FROM gv\$session s WHERE", lambda _: next(calls))
        # The call's transaction was not there at first; that of another session begins too late to have taken one.
        found = iter([[], [("1/1/1/1", 33, 9, "APP", 1), ("1/2/2/2", 44, 1, "B", 1)], [("1/2/2/2", 44, 1, "B", 1)], []])
        server.on(r"gv\$transaction", lambda _: next(found))
        assert self.bound(server, timedelta(seconds=5)).upto == "12"
        assert sum("gv$transaction" in sql for sql in server.statements) == 3

    def test_is_none_while_they_write(self, server: SimulatedServer) -> None:
        server.on("all_tab_identity_cols", [(self.OPTIONS,)])
        server.on(r"gv\$transaction", [("1/5/6/7", 33, 9, "APP", 1)])
        found = self.bound(server)
        assert (found.upto, found.held_by) == (None, ("session 33,9 of user APP, writing",))

    def test_instances_with_caches_of_their_own(self, server: SimulatedServer) -> None:
        server.on("count.DISTINCT inst_id", [(2,)])
        server.on("all_tab_identity_cols", [(self.OPTIONS,)])
        with pytest.raises(EdgeUnknown, match="each of 2 instances"):
            self.bound(server)
        server.on("all_tab_identity_cols", [(self.OPTIONS.replace("ORDER_FLAG: N", "ORDER_FLAG: Y"),)])
        assert self.bound(server).upto == "12"

    @pytest.mark.parametrize(
        ("rows", "words"),
        [
            ([], "is no identity column"),
            ([(OPTIONS.replace("INCREMENT BY: 1", "INCREMENT BY: -1"),)], "does not count upwards"),
            ([(OPTIONS.replace("CYCLE_FLAG: N", "CYCLE_FLAG: Y"),)], "does not count upwards"),
        ],
    )
    def test_is_unknown_where_numbers_come_in_any_order(self, server: SimulatedServer, rows, words: str) -> None:
        server.on("all_tab_identity_cols", rows)
        with pytest.raises(EdgeUnknown, match=words):
            self.bound(server)

    def test_a_number_without_digits_has_to_be_stated(self, server: SimulatedServer) -> None:
        session = opened(server)
        with pytest.raises(ConfigError, match="needs an integer") as found:
            session.safe_sequence_bound(
                session.dialect.relation("SHOP", "ORDERS"), Column(name="ID", type=TEXT), wait=timedelta(0)
            )
        assert "columns: {ID: bigint}" in found.value.hint
