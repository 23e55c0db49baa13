"""MariaDB as a source: the tg1 vectors, hard values on their way to Spark, edges of two sessions, hostile names."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import pymysql
import pytest

from integration.source import vectors
from integration.source.loading import Careful
from tidegate.core.batch import Latest
from tidegate.core.bounds import Clock, SequenceBound, TimeBound
from tidegate.core.changes import SafeBound
from tidegate.core.fingerprint import Fingerprint
from tidegate.core.grouping import Grouping, Period, Periods, Prefixes, Steps
from tidegate.core.ids import Connection
from tidegate.core.slices import Everything, Partition, Range
from tidegate.dialects.mariadb import Mariadb
from tidegate.dialects.mariadb import safe_bounds as edges
from tidegate.dialects.spark import Spark
from tidegate.errors import (
    ColumnMissing,
    ConfigError,
    EdgeUnknown,
    SchemaRefused,
    SourceMoved,
    SourceRefused,
    SourceUnavailable,
)
from tidegate.sources.database import Database
from tidegate.sources.database.source import dialect_of, table_facts
from tidegate.spark.jars import resolve
from tidegate.strategies.sequence import Sequence
from tidegate.strategies.watermark import Watermark

if TYPE_CHECKING:
    from support.mariadb import MariadbServer

pytest_plugins = ["support.mariadb"]

VECTORS = """
CREATE TABLE vectors (
  c0 bigint, c1 decimal(38,4), c2 tinyint(1), c3 date, c4 datetime(6), c5 datetime(6), c6 text, c7 uuid, c8 blob
)
"""
ORDERS = """
CREATE TABLE orders (
  id bigint AUTO_INCREMENT PRIMARY KEY, name text NOT NULL, updated_at timestamp(6) NOT NULL DEFAULT now(6)
)
"""
INSERT = "INSERT INTO orders (name) VALUES (%s)"


@dataclass(kw_only=True)
class Writers:
    """A database with a table of orders, and sessions that write it."""

    server: MariadbServer
    database: str
    sessions: list[pymysql.Connection] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.server.url(self.database)

    def session(self) -> Callable[..., tuple]:
        connection = self.server.connect(self.database)
        self.sessions.append(connection)

        def execute(sql: str, values: list | None = None) -> tuple:
            with connection.cursor() as cursor:
                cursor.execute(sql, values)
                return cursor.fetchall()

        return execute

    def rows(self) -> dict[int, str]:
        return dict(self.session()("SELECT id, name FROM orders"))


@pytest.fixture
def shop(mariadb: MariadbServer, maria_database: str) -> Iterator[Writers]:
    mariadb.run(ORDERS, database=maria_database)
    shop = Writers(server=mariadb, database=maria_database)
    yield shop
    for session in shop.sessions:
        if session.open:
            session.close()


@pytest.fixture
def no_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes away the second that covers what two machines do at once; here the sessions act one after the other."""
    monkeypatch.setattr(edges, "SETTLE", timedelta(0))


@pytest.fixture(scope="module")
def spark_with_driver(spark):
    for path in resolve(Mariadb.jars):
        spark.sql(f"ADD JAR '{path}'")
    return spark


def source(url: str, table: str = "hard", **options) -> Database:
    if "query" not in options:
        options["table"] = table
    return Database(connection=Connection(name="server", url=url), **options)


def vectors_source(server: MariadbServer, database: str) -> Database:
    rows = []
    for row in vectors.VECTORS["rows"]:
        c0, c1, c2, c3, c4, _, c6, c7, c8 = row["values"]
        utc = row["text"].split("|")[5]
        flag = None if c2 is None else int(c2 == "True")
        binary = None if c8 is None else bytes.fromhex(c8)
        rows.append([c0, c1, flag, c3, c4, None if utc == "~N" else utc, c6, c7, binary])
    server.run(VECTORS, database=database)
    with server.connect(database) as connection, connection.cursor() as cursor:
        cursor.executemany("INSERT INTO vectors VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)", rows)
    return source(server.url(database), "vectors", columns={"c2": "boolean"})


def in_spark(there: Database, spark, zone: str) -> tuple[Fingerprint, list[str]]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        with there.probe() as probe:
            columns = probe.schema().columns
            rows = there.read(spark, probe, [Everything()], probe.schema())
            rows.createOrReplaceTempView("read")
            sums = spark.sql(Spark().fingerprint("read", columns)).collect()[0]
            texts = [row[0] for row in spark.sql(f"SELECT {Spark().row(columns)} FROM read").collect()]
            assert probe.fingerprint(Everything()) == Fingerprint.of_sums(list(sums))
            probe.verify_unchanged()
            return Fingerprint.of_sums(list(sums)), sorted(texts)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_vectors(mariadb: MariadbServer, maria_database: str) -> None:
    with vectors_source(mariadb, maria_database).probe() as probe:
        assert probe.fingerprint(Everything()) == vectors.FINGERPRINT
        where = [Partition(column="c0", label=str(n), low=str(n), high=str(n + 1)) for n in range(1, 13)]
        for part, row in zip(where, vectors.VECTORS["rows"], strict=True):
            if row["values"][0] == part.low:
                assert probe.fingerprint(part) == Fingerprint.of_texts([row["text"]])


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("zone", ["America/New_York", "UTC"])
def test_vectors_to_spark(mariadb: MariadbServer, maria_database: str, spark_with_driver, zone: str) -> None:
    found = in_spark(vectors_source(mariadb, maria_database), spark_with_driver, zone)
    assert found == (vectors.FINGERPRINT, sorted(vectors.TEXTS))


# Column: declaration, values as MariaDB reads them, type in Spark, the same values as Spark writes them in UTC.
HARD = {
    "ti": ("tinyint", "-128", "int", "-128"),
    "flag": ("tinyint(1)", "2", "int", "2"),
    "bit_one": ("bit(1)", "b'1'", "boolean", "true"),
    "filled": ("int(5) unsigned zerofill", "42", "bigint", "42"),
    "ub": ("bigint unsigned", "18446744073709551615", "decimal(20,0)", "18446744073709551615"),
    "wide": ("decimal(38,10)", "-0.00000000001", "decimal(38,10)", "0.0000000000"),
    "wider": ("decimal(65,2)", "12345678901234567890123456789012345678.12", "string", None),
    "small": ("decimal(5,5)", "-0.00001", "decimal(5,5)", "-0.00001"),
    "day": ("date", "'1582-10-10'", "date", "1582-10-10"),
    "first": ("datetime(6)", "'0001-01-01 00:00:00.000001'", "timestamp_ntz", "0001-01-01 00:00:00.000001"),
    "last": ("datetime(6)", "'9999-12-31 23:59:59.999999'", "timestamp_ntz", "9999-12-31 23:59:59.999999"),
    "gap": ("datetime(6)", "'2025-03-09 02:30:00.123456'", "timestamp_ntz", "2025-03-09 02:30:00.123456"),
    "utc_gap": ("timestamp(6) null", "'2025-03-09 02:30:00.000001'", "timestamp", "2025-03-09 02:30:00.000001"),
    "clock": ("time(6)", "'-838:59:59.5'", "string", "-838:59:59.500000"),
    "yr": ("year", "1901", "int", "1901"),
    "real_one": ("float", "16777215", "float", "1.6777215E7"),
    "double_one": ("double", "0.1", "double", "0.1"),
    "padded": ("char(5)", "'ab'", "string", "ab"),
    "blanks": ("varchar(9)", "'ab  '", "string", "ab  "),
    "old": ("varchar(9) character set latin1", "'ü€'", "string", "ü€"),
    "cyrillic": ("varchar(9) character set cp1251", "'Жы?'", "string", "Жы?"),
    "ship": ("text", "'🚢~|\\\\\\n'", "string", "🚢~|\\\n"),
    "mood": ("enum('ok','so so')", "'so so'", "string", "so so"),
    "marks": ("set('a','b')", "'b,a'", "string", "a,b"),
    "js": ("json", """'{"b": 1,  "a":2}'""", "string", '{"b": 1,  "a":2}'),
    "uid": ("uuid", "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "string", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    "address": ("inet6", "'::1'", "string", "::1"),
    "fixed": ("binary(3)", "x'00ff'", "binary", "00ff00"),
    "blob_one": ("blob", "x''", "binary", ""),
}
BAD = [
    ("date", "'0000-00-00'", {}),
    ("date", "'2025-00-10'", {}),
    ("datetime(6)", "'0000-00-00 00:00:00'", {}),
    ("timestamp null", "'0000-00-00 00:00:00'", {}),
    ("date", "'2025-02-31'", {}),
    ("tinyint(1)", "2", {"x": "boolean"}),
    ("decimal(65,3)", "1.234", {"x": "decimal(12,2)"}),
    ("varchar(9) character set cp1251", "x'98'", {}),
]


def test_hard_values_have_their_types(mariadb: MariadbServer, maria_database: str, maria_url: str) -> None:
    mariadb.run(
        f"CREATE TABLE hard ({', '.join(f'{n} {kind}' for n, (kind, *_) in HARD.items())})", database=maria_database
    )
    with source(maria_url).probe() as probe:
        assert {column.name: column.type.spark for column in probe.schema()} == {n: each[2] for n, each in HARD.items()}


@pytest.mark.spark
def test_hard_values_arrive_unchanged(
    mariadb: MariadbServer, maria_database: str, maria_url: str, spark_with_driver
) -> None:
    spark = spark_with_driver
    mariadb.run(
        f"CREATE TABLE hard ({', '.join(f'{name} {kind}' for name, (kind, *_) in HARD.items())})",
        "SET time_zone = '+00:00'",
        f"INSERT INTO hard VALUES ({', '.join(value for _, value, _, _ in HARD.values())})",
        f"INSERT INTO hard ({next(iter(HARD))}) VALUES (NULL)",
        database=maria_database,
    )
    in_spark(source(maria_url), spark, "America/New_York")
    in_spark(source(maria_url, query="SELECT *, 'a''b' AS extra FROM hard -- the end"), spark, "UTC")
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        with source(maria_url).probe() as probe:
            rows = source(maria_url).read(spark, probe, [Everything()], probe.schema()).where("ti IS NOT NULL")
            shown = [
                f"lower(hex({name}))" if kind == "binary" else f"CAST({name} AS string)"
                for name, (_, _, kind, _) in HARD.items()
            ]
            found = tuple(rows.selectExpr(*shown).collect()[0])
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert found == tuple(value if text is None else text for _, value, _, text in HARD.values())


@pytest.mark.parametrize(("kind", "value", "columns"), BAD)
def test_value_that_cannot_be_kept_ends_the_statement(
    mariadb: MariadbServer, maria_database: str, maria_url: str, kind: str, value: str, columns: dict
) -> None:
    mariadb.run(
        f"CREATE TABLE hard (id int PRIMARY KEY, x {kind})",
        "INSERT INTO hard VALUES (1, NULL)",
        "SET sql_mode = 'ALLOW_INVALID_DATES'",
        f"INSERT INTO hard VALUES (2, {value})",
        database=maria_database,
    )
    with source(maria_url, columns=columns).probe() as probe:
        with pytest.raises(SchemaRefused, match="column 'x' holds a value") as refused:
            probe.fingerprint(Everything())
        assert value.strip("'") not in str(refused.value)
        reading = probe.statements.dialect.read(probe.statements.column("x")).sql
        with pytest.raises(SchemaRefused, match="column 'x' holds a value"):
            probe.session.rows(f"SELECT {reading} FROM hard")
        one = Range(cursor=("id",), after=None, upto="1")
        assert probe.fingerprint(one) == Fingerprint.of_texts(["1|~N"])


@pytest.mark.parametrize("kind", ["geometry", "bit(9)", "point"])
def test_type_that_cannot_be_kept_is_refused_by_name(
    mariadb: MariadbServer, maria_database: str, maria_url: str, kind: str
) -> None:
    mariadb.run(f"CREATE TABLE hard (id int, x {kind})", database=maria_database)
    with source(maria_url).probe() as probe, pytest.raises(SchemaRefused, match="column 'x'") as refused:
        probe.schema()
    assert "CAST" in refused.value.hint or "ST_AsText" in refused.value.hint


def test_row_beyond_the_packet_is_no_silent_null(mariadb: MariadbServer, maria_database: str, maria_url: str) -> None:
    """CONCAT gives NULL above max_allowed_packet, and two different rows would have one fingerprint."""
    mariadb.run(
        "CREATE TABLE hard (a longtext, b longtext)",
        "INSERT INTO hard VALUES (repeat('a', 9000000), repeat('b', 9000000))",
        database=maria_database,
    )
    with source(maria_url).probe() as probe, pytest.raises(SchemaRefused, match="max_allowed_packet"):
        probe.fingerprint(Everything())


CASES = ["a", "A", "ä", "Ä", "a ", "a\u0308", "ab", "AB", "", None, "~N", "a|b", "🚢x", "🚢y"]


def test_collations_join_nothing(mariadb: MariadbServer, maria_database: str, maria_url: str) -> None:
    mariadb.run(
        "CREATE TABLE hard (id int, code varchar(20) COLLATE utf8mb4_general_ci, at datetime(6))",
        database=maria_database,
    )
    with mariadb.connect(maria_database) as connection, connection.cursor() as cursor:
        cursor.executemany("INSERT INTO hard VALUES (%s, %s, '2025-01-01')", list(enumerate(CASES)))
    with source(maria_url).probe() as probe:
        bounds = probe.key_bounds(Everything(), "code")
        known = {text for text in CASES if text is not None}
        assert bounds is not None
        assert set(bounds.values) == known
        assert (bounds.low, bounds.high) == (min(known), max(known))
        # One row a key: none is superseded by another that only a collation calls equal.
        assert probe.count(Everything(), latest=Latest(key=("code",), order=("at",))) == len(CASES)
        between = Range(cursor=("code",), after="A", upto="a")
        assert probe.count(between) == sum("A" < text <= "a" for text in known)


NUMBERS = [-1001, -1000, -1, 0, 5, 999, 1000, None]
DAYS = ["0001-01-01", "1969-12-31", "2024-02-29", "2025-01-01", "9999-12-31", None]


@pytest.mark.parametrize(
    ("grouping", "values", "kind"),
    [
        (Steps(column="x", width=1000), NUMBERS, "int"),
        (Steps(column="x", width=1000), [0, 999, 1000, 2**64 - 1, None], "bigint unsigned"),
        (Steps(column="x", width=1000), NUMBERS, "decimal(12,0)"),
        *((Periods(column="x", period=period), DAYS, "date") for period in (Period.DAY, Period.WEEK, Period.QUARTER)),
        (Periods(column="x", period=Period.MONTH), DAYS, "datetime(6)"),
        (Prefixes(column="x", length=1), CASES, "varchar(20) COLLATE utf8mb4_general_ci"),
        (Prefixes(column="x", length=2), CASES, "varchar(20) COLLATE utf8mb4_general_ci"),
    ],
)
def test_groups_are_those_of_the_model(
    mariadb: MariadbServer, maria_database: str, maria_url: str, grouping: Grouping, values: list, kind: str
) -> None:
    mariadb.run(f"CREATE TABLE hard (x {kind})", database=maria_database)
    with mariadb.connect(maria_database) as connection, connection.cursor() as cursor:
        cursor.executemany("INSERT INTO hard VALUES (%s)", [(value,) for value in values])
    with source(maria_url).probe() as probe:
        column = probe.schema().find("x")
        assert column is not None
        model: defaultdict[object, list[str]] = defaultdict(list)
        for value in values:
            bucket, text = in_model(grouping, value, kind)
            model[grouping.part(grouping.coarse(bucket), column)].append(text)
        found = probe.partitions(grouping)
        assert found == {part: Fingerprint.of_texts(texts) for part, texts in model.items()}
        for part, fingerprint in found.items():
            assert probe.fingerprint(part) == fingerprint


def in_model(grouping: Grouping, value: object, kind: str) -> tuple[str | None, str]:
    """Bucket and row text, in plain Python."""
    if value is None:
        return None, "~N"
    if isinstance(grouping, Steps):
        number = int(str(value))
        return str(number // grouping.width * grouping.width), str(number)
    text = f"{value} 00:00:00.000000" if kind.startswith("datetime") else str(value)
    if isinstance(grouping, Periods):
        length = {Period.DAY: 10, Period.WEEK: 10, Period.MONTH: 7, Period.QUARTER: 7}[grouping.period]
        return text[:length], text
    assert isinstance(grouping, Prefixes)
    return text[: grouping.length], text.replace("~", "~0").replace("|", "~1")


def test_borders_split_a_range_evenly(shop: Writers) -> None:
    shop.session()("INSERT INTO orders (name) SELECT seq FROM seq_1_to_90")
    part = Range(cursor=("id",), after="0", upto="90")
    with source(shop.url, "orders").probe() as probe:
        assert probe.session.rows(probe.statements.borders(part, 3)) == [("30",), ("60",), ("90",)]
        assert probe.session.estimate(probe._relation, probe.condition(part)) > 0


@pytest.mark.spark
@pytest.mark.parametrize("slices", [1, 3])
def test_hostile_names(
    mariadb: MariadbServer, maria_database: str, maria_url: str, spark_with_driver, slices: int
) -> None:
    names = ["a.b", 'q"uote', "sel`ect", "x DESC NULLS LAST", "x y", "${v}", "c0", "select", "%s", "b\\n"]
    quoted = [Mariadb().quote(name) for name in names]
    mariadb.run(
        f"CREATE TABLE `odd.na``me` ({', '.join(f'{name} int NOT NULL' for name in quoted)}, UNIQUE ({quoted[4]}))",
        f"INSERT INTO `odd.na``me` VALUES ({', '.join(map(str, range(10)))})",
        f"INSERT INTO `odd.na``me` VALUES ({', '.join(map(str, range(10, 20)))})",
        database=maria_database,
    )
    there = source(maria_url, f'"{maria_database}"."odd.na`me"', slices=slices)
    with there.probe() as probe:
        latest = Latest(key=("a.b",), order=("x DESC NULLS LAST", "b\\n"))
        assert probe.count(Everything(), latest=latest) == 2
        assert probe.unique(["x y"])
        rows = there.read(spark_with_driver, probe, [Everything()], probe.schema())
        assert rows.columns == names
        assert sorted(map(tuple, rows.collect())) == [tuple(range(10)), tuple(range(10, 20))]


def test_names_and_texts_never_become_syntax(maria_url: str) -> None:
    dialect, hostile = Mariadb(), ["it's", "\\", "\\' OR 1=1 -- ", '"', "a\0b", "`", "🚢\n"]
    with source(maria_url, query="SELECT 1 AS x").probe() as probe:
        for text in hostile:
            assert probe.session.rows(f"SELECT CAST({dialect.string(text)} AS BINARY)") == [(text,)]


def safe_time_bound(url: str, column: str = "updated_at", table: str = "orders", **options) -> SafeBound:
    with source(url, table).probe(bound=TimeBound(column=column, **options)) as probe:
        return probe.edge()


def safe_sequence_bound(url: str, table: str = "orders", **options) -> SafeBound:
    with source(url, table).probe(bound=SequenceBound(column="id", **options)) as probe:
        return probe.edge()


def moment(text: str | None) -> datetime:
    assert text is not None
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_time_edge_is_a_second_before_the_clock_or_below_who_writes(shop: Writers) -> None:
    before = datetime.now(UTC)
    edge = safe_time_bound(shop.url)
    assert before - timedelta(seconds=3) <= moment(edge.upto) <= datetime.now(UTC) - timedelta(seconds=1)
    assert edge.held_by == ()
    writer = shop.session()
    writer("BEGIN")
    writer(INSERT, ["open"])
    ((started, thread),) = writer("SELECT updated_at, connection_id() FROM orders")
    started = started + timedelta(hours=5)  # as the server's own zone shows it
    time.sleep(2.1)
    edge = safe_time_bound(shop.url)
    assert started.replace(tzinfo=UTC) - timedelta(seconds=2) < moment(edge.upto) < started.replace(tzinfo=UTC)
    assert f"connection {thread} of user root" in edge.held_by[0]


def test_statement_that_runs_holds_the_edge_before_it_has_a_transaction(shop: Writers) -> None:
    """Its NOW() is its start, and no transaction of it is listed while it waits."""
    began = datetime.now(UTC)
    writer = shop.session()
    running = threading.Thread(target=writer, args=("INSERT INTO orders (name) SELECT sleep(3.5)",))
    running.start()
    time.sleep(2.5)
    edge = safe_time_bound(shop.url)
    running.join()
    assert moment(edge.upto) < began
    assert edge.held_by


def test_prepared_transaction_stops_and_is_named(shop: Writers) -> None:
    writer = shop.session()
    for statement in ("XA START 'two phases'", "INSERT INTO orders (name) VALUES ('x')", "XA END 'two phases'"):
        writer(statement)
    writer("XA PREPARE 'two phases'")
    shop.sessions[0].close()
    try:
        with pytest.raises(EdgeUnknown, match="two phases") as stopped:
            safe_time_bound(shop.url)
        assert "XA COMMIT" in stopped.value.hint
        assert "two phases" in safe_sequence_bound(shop.url).held_by[0]
    finally:
        time.sleep(0.2)
        shop.session()("XA ROLLBACK 'two phases'")


def test_user_who_sees_no_transactions_is_told_what_to_grant(shop: Writers) -> None:
    admin = shop.session()
    admin("CREATE USER reader@localhost IDENTIFIED BY 'p@ss:w/rd'")
    admin(f"GRANT SELECT ON {shop.database}.* TO reader@localhost")
    url = shop.server.url(shop.database, user="reader", password="p@ss:w/rd")
    try:
        for edge in (safe_time_bound, safe_sequence_bound):
            with pytest.raises(EdgeUnknown, match="may not see") as stopped:
                edge(url)
            assert "GRANT PROCESS" in stopped.value.hint
        assert safe_time_bound(url, clock=Clock.APPLICATION, lag=timedelta(minutes=1)).upto
        admin("GRANT PROCESS ON *.* TO reader@localhost")
        assert safe_time_bound(url).upto
        with pytest.raises(SourceRefused, match="refused the login") as refused:
            source(url.replace("w%2Frd", "wrong"), "orders").probe().__enter__()
        assert "wrong" not in f"{refused.value}{refused.value.hint}"
    finally:
        admin("DROP USER reader@localhost")


def test_read_only_server_stops(shop: Writers) -> None:
    admin = shop.session()
    admin("SET GLOBAL read_only = 1")
    try:
        for edge in (safe_time_bound, safe_sequence_bound):
            with pytest.raises(EdgeUnknown, match="replica"):
                edge(shop.url)
    finally:
        admin("SET GLOBAL read_only = 0")


def test_old_list_of_transactions_is_not_believed(shop: Writers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edges, "OPEN", f"SELECT * FROM ({edges.OPEN}) AS kept WHERE trx_mysql_thread_id = 0")
    monkeypatch.setattr(edges, "FRESH_TRIES", 2)
    with pytest.raises(EdgeUnknown, match="not up to date"):
        safe_time_bound(shop.url)


def test_columns_without_zone_need_one_that_says_enough(mariadb: MariadbServer, shop: Writers) -> None:
    shop.session()("CREATE TABLE local_times (at datetime, day date)")
    with pytest.raises(ConfigError, match="is ambiguous"):
        safe_time_bound(shop.url, "at", "local_times")
    found = datetime.fromisoformat(safe_time_bound(shop.url, "at", "local_times", time_zone="Asia/Tokyo").upto or "")
    assert timedelta(hours=8, minutes=59) < found - datetime.now(UTC).replace(tzinfo=None) < timedelta(hours=9)
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    assert date.fromisoformat(safe_time_bound(shop.url, "day", "local_times", time_zone="UTC").upto or "") == yesterday


def test_sequence_edge_waits_for_exactly_those_who_write(shop: Writers) -> None:
    assert safe_sequence_bound(shop.url) == SafeBound(upto=None)
    writer, follower = shop.session(), shop.session()
    writer("BEGIN")
    writer(INSERT, ["open"])
    shop.session()(INSERT, ["closed"])
    edge = safe_sequence_bound(shop.url, wait=timedelta(milliseconds=100))
    assert edge.upto is None
    assert "of user root" in edge.held_by[0]

    def end() -> None:
        time.sleep(0.5)
        follower("BEGIN")
        follower(INSERT, ["later"])  # a new writer, whom nobody has to wait for
        writer("COMMIT")

    ending = threading.Thread(target=end)
    ending.start()
    edge = safe_sequence_bound(shop.url, wait=timedelta(seconds=20))
    ending.join()
    assert edge == SafeBound(upto="2")


def test_writer_that_is_prepared_while_it_is_waited_for_holds_the_sequence_edge(shop: Writers) -> None:
    writer = shop.session()
    for statement in ("XA START 'late'", "INSERT INTO orders (name) VALUES ('x')", "XA END 'late'"):
        writer(statement)
    shop.session()(INSERT, ["closed"])

    def prepare() -> None:
        time.sleep(0.2)
        writer("XA PREPARE 'late'")
        shop.sessions[0].close()

    preparing = threading.Thread(target=prepare)
    preparing.start()
    try:
        edge = safe_sequence_bound(shop.url, wait=timedelta(seconds=2))
        assert edge.upto is None
        assert "late" in edge.held_by[0]
    finally:
        preparing.join()
        time.sleep(0.2)
        shop.session()("XA ROLLBACK 'late'")


def test_readers_hold_no_sequence_edge(shop: Writers) -> None:
    reader = shop.session()
    reader(INSERT, ["row"])
    reader("BEGIN")
    reader("SELECT * FROM orders")
    assert safe_sequence_bound(shop.url).upto == "1"


def test_numbers_that_do_not_grow_are_refused(shop: Writers) -> None:
    admin = shop.session()
    admin("CREATE TABLE plain (id bigint PRIMARY KEY)")
    admin("CREATE TABLE aria (id bigint AUTO_INCREMENT PRIMARY KEY) ENGINE = Aria")
    for table, word in (("plain", "not AUTO_INCREMENT"), ("aria", "Aria")):
        with pytest.raises(EdgeUnknown, match=word):
            safe_sequence_bound(shop.url, table)


def older_commits_last(shop: Writers) -> Iterator[None]:
    old, new = shop.session(), shop.session()
    old("BEGIN")
    old(INSERT, ["old"])
    new(INSERT, ["new"])
    yield
    old("COMMIT")
    yield


def begins_now_and_writes_later(shop: Writers) -> Iterator[None]:
    old, new = shop.session(), shop.session()
    old("BEGIN")
    old("SELECT count(*) FROM orders")
    new(INSERT, ["new"])
    yield
    old(INSERT, ["old"])
    old("COMMIT")
    yield


def older_updates_a_loaded_row(shop: Writers) -> Iterator[None]:
    old, new = shop.session(), shop.session()
    new(INSERT, ["first"])
    time.sleep(1.1)
    yield
    old("BEGIN")
    old("UPDATE orders SET name = 'changed', updated_at = now(6) WHERE id = 1")
    new(INSERT, ["second"])
    time.sleep(1.1)
    yield
    old("COMMIT")
    yield


@pytest.mark.slow
@pytest.mark.usefixtures("no_settling")
@pytest.mark.parametrize(
    ("strategy", "scenario"),
    [
        (Watermark(column="updated_at"), older_commits_last),
        (Watermark(column="updated_at"), begins_now_and_writes_later),
        (Watermark(column="updated_at"), older_updates_a_loaded_row),
        (Sequence(column="id"), older_commits_last),
        (Sequence(column="id"), begins_now_and_writes_later),
    ],
)
def test_no_row_is_lost(shop: Writers, strategy, scenario: Callable[[Writers], Iterator[None]]) -> None:
    loader = Careful(url=shop.url, strategy=strategy)
    for _ in scenario(shop):
        time.sleep(1.1)  # the bound has whole seconds
        loader.load()
    time.sleep(1.1)
    loader.load()
    assert loader.stopped == ""
    assert {key: row[1] for key, row in loader.rows.items()} == shop.rows()


def test_change_while_reading_is_noticed_and_a_quiet_table_is_not_asked_again(shop: Writers) -> None:
    writer = shop.session()
    writer(INSERT, ["row"])
    time.sleep(1.1)
    with source(shop.url, "orders").probe() as probe:
        assert not probe.has_snapshot()
        probe.fingerprint(Everything())
        asked: list[str] = []
        ask = probe.session.outside_rows
        probe.session.outside_rows = lambda sql: asked.append(sql) or ask(sql)
        probe.verify_unchanged()
        assert not any("MD5" in sql for sql in asked)
        writer("UPDATE orders SET name = 'another'")
        assert probe.fingerprint(Everything()) == probe.fingerprint(Everything())
        with pytest.raises(SourceMoved):
            probe.verify_unchanged()


def test_rows_beyond_the_slice_move_nothing(shop: Writers) -> None:
    writer = shop.session()
    writer(INSERT, ["row"])
    with source(shop.url, "orders").probe() as probe:
        probe.fingerprint(Range(cursor=("id",), after=None, upto="1"))
        writer(INSERT, ["later"])
        probe.verify_unchanged()


def test_alter_waits_for_the_probe(shop: Writers) -> None:
    with source(shop.url, "orders").probe() as probe:
        probe.schema()
        writer = shop.session()
        writer("SET lock_wait_timeout = 1")
        with pytest.raises(pymysql.err.OperationalError, match="1205"):
            writer("ALTER TABLE orders ADD COLUMN more int")
        assert probe.count(Everything()) == 0


def test_identity_clock_keys_and_size(shop: Writers) -> None:
    admin = shop.session()
    admin("CREATE TABLE keys_of (a int PRIMARY KEY, b int UNIQUE, c int NOT NULL, d int NOT NULL, UNIQUE (c, d))")
    with source(shop.url, "keys_of").probe() as probe:
        answers = {key: probe.unique(key.split()) for key in ("a", "b", "c", "c d", "a b", "")}
        first, began = probe.identity(), probe.clock()
        assert probe.session.row_bytes(probe._relation) > 0
    assert answers == {"a": True, "b": False, "c": False, "c d": True, "a b": False, "": False}
    admin("INSERT INTO keys_of VALUES (1, 1, 1, 1)")
    with source(shop.url, "keys_of").probe() as probe:
        assert probe.identity() == first
        assert (probe.clock() or 0) > (began or 0) > 0
    with source(shop.url, "orders").probe() as probe:
        assert probe.identity() != first
    (facts,) = (each for each in table_facts(Connection(name="c", url=shop.url), f"{shop.database}.keys_of"))
    assert (facts.primary_key, facts.indexes) == (("a",), (("b",), ("c", "d")))
    assert facts.columns.names == ("a", "b", "c", "d")


def test_unreachable_missing_and_wrong(shop: Writers) -> None:
    with pytest.raises(SourceUnavailable, match="cannot be reached"), source("mariadb://a:b@127.0.0.1:1/x").probe():
        pass
    with pytest.raises(SourceUnavailable, match="no such database"), source(shop.url + "_not").probe():
        pass
    with pytest.raises(ConfigError, match="no database"), source("mariadb://a@127.0.0.1").probe():
        pass
    with source(shop.url, "nowhere").probe() as probe, pytest.raises(ColumnMissing, match="nowhere"):
        probe.schema()
    with source(shop.url, "orders", columns={"name": "date"}).probe() as probe, pytest.raises(SchemaRefused):
        probe.schema()
    assert dialect_of(Connection(name="c", url=shop.url.replace("mariadb:", "mysql:"))).kind == "mariadb"


def test_connection_that_is_cut_may_be_tried_again(shop: Writers) -> None:
    with source(shop.url, "orders").probe() as probe:
        shop.session()(f"KILL {probe.session.thread}")
        with pytest.raises(SourceUnavailable) as cut:
            probe.count(Everything())
        assert cut.value.retryable
