"""What `tidegate certify` writes to MariaDB: every type with its extremes, over a connection of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, ClassVar
from urllib.parse import quote, urlsplit, urlunsplit

from tidegate import extras
from tidegate.core.ids import Connection
from tidegate.core.ports.certification import Certification, Sample, Scratch, Server
from tidegate.dialects.mariadb.address import address_of
from tidegate.dialects.shared.samples import NINES, blobs, days, decimals, integers, moments, plain, texts, uuids
from tidegate.errors import EnvironmentMissing, SourceError

try:
    import pymysql
except ModuleNotFoundError as error:
    raise EnvironmentMissing("the MariaDB driver is not installed", hint=extras.hint("mariadb")) from error
from tidegate.dialects.mariadb.errors import refused, translated_errors

UTF8 = "CHARACTER SET utf8mb4"
SETTINGS = "SET time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES', NAMES utf8mb4"
CONTENTS = """
SELECT table_name FROM information_schema.tables WHERE table_schema = {schema}
UNION SELECT routine_name FROM information_schema.routines WHERE routine_schema = {schema}
UNION SELECT event_name FROM information_schema.events WHERE event_schema = {schema} ORDER BY 1
"""


def literal(text: str) -> str:
    """A text, its quotes and backslashes doubled."""
    return plain(text.replace("\\", "\\\\"))


SAMPLES = (
    integers("c_tinyint", "tinyint", -128, 127),
    integers("c_utinyint", "tinyint unsigned", 0, 255),
    integers("c_smallint", "smallint", -(2**15), 2**15 - 1),
    integers("c_mediumint", "mediumint", -(2**23), 2**23 - 1),
    integers("c_int", "int", -(2**31), 2**31 - 1),
    integers("c_uint", "int unsigned", 0, 2**32 - 1),
    integers("c_bigint", "bigint", -(2**63), 2**63 - 1),
    integers("c_ubigint", "bigint unsigned", 0, 2**64 - 1),
    integers("c_year", "year", 1901, 2155),
    Sample(name="c_boolean", declaration="tinyint(1)", read_as="boolean", values=(("0", False), ("1", True))),
    Sample(name="c_bit", declaration="bit(1)", values=(("b'0'", False), ("b'1'", True))),
    decimals("c_decimal_38_0", 38, 0),
    decimals("c_decimal_38_10", 38, 10),
    decimals("c_decimal_5_5", 5, 5),
    Sample(
        name="c_decimal_65_2",
        declaration="decimal(65,2)",
        values=((f"-{NINES}99999.99", f"-{NINES}99999.99"), ("0.01", "0.01")),
    ),
    Sample(name="c_float", declaration="float", values=(("16777215", 16777215.0), ("-0.5", -0.5))),
    Sample(
        name="c_double",
        declaration="double",
        values=(
            ("-1.7976931348623157e308", -1.7976931348623157e308),
            ("2.2250738585072014e-308", 2.2250738585072014e-308),
            ("0.1", 0.1),
        ),
    ),
    Sample(name="c_date", declaration="date", values=days()),
    Sample(name="c_datetime", declaration="datetime(6)", values=moments()),
    Sample(
        name="c_timestamp",
        declaration="timestamp(6) NULL",
        values=(
            ("'1970-01-01 00:00:01.000001'", datetime(1970, 1, 1, 0, 0, 1, 1, tzinfo=UTC)),
            ("'2038-01-19 03:14:07.999999'", datetime(2038, 1, 19, 3, 14, 7, 999999, tzinfo=UTC)),
            ("'2025-03-30 02:30:00.000001'", datetime(2025, 3, 30, 2, 30, 0, 1, tzinfo=UTC)),
        ),
    ),
    Sample(
        name="c_time",
        declaration="time(6)",
        values=(
            ("'-838:59:59.999999'", "-838:59:59.999999"),
            ("'838:59:59'", "838:59:59.000000"),
            ("'00:00:00.000001'", "00:00:00.000001"),
        ),
    ),
    Sample(name="c_text", declaration=f"text {UTF8}", values=texts(literal)),
    Sample(name="c_varchar", declaration=f"varchar(20) {UTF8}", values=texts(literal)),
    Sample(name="c_char", declaration=f"char(5) {UTF8}", values=(("'ab '", "ab"), ("' b'", " b"), ("''", ""))),
    Sample(name="c_latin1", declaration="varchar(9) CHARACTER SET latin1", values=(("'ü€'", "ü€"), ("'\\\\'", "\\"))),
    Sample(name="c_enum", declaration=f"enum('ok', 'so so') {UTF8}", values=(("'so so'", "so so"), ("'ok'", "ok"))),
    Sample(name="c_set", declaration=f"set('a', 'b') {UTF8}", values=(("'b,a'", "a,b"), ("''", ""))),
    Sample(
        name="c_json",
        declaration="json",
        values=(("""'{"b": 1,  "a":[1.0]}'""", '{"b": 1,  "a":[1.0]}'), ("'null'", "null")),
    ),
    Sample(name="c_uuid", declaration="uuid", values=uuids()),
    Sample(name="c_inet4", declaration="inet4", values=(("'1.2.3.4'", "1.2.3.4"), ("'10.0.0.1'", "10.0.0.1"))),
    Sample(name="c_inet6", declaration="inet6", values=(("'::'", "::"), ("'::1'", "::1"))),
    Sample(name="c_blob", declaration="blob", values=blobs()),
    Sample(name="c_varbinary", declaration="varbinary(300)", values=blobs()),
    Sample(name="c_binary", declaration="binary(3)", values=(("x'00ff'", b"\x00\xff\x00"), ("x'ffffff'", b"\xff" * 3))),
    Sample(
        name="c_point_as_text",
        declaration="point",
        read_as="text",
        values=(("POINT(1, 2.5)", "POINT(1 2.5)"), ("POINT(-1, 0)", "POINT(-1 0)")),
    ),
)


class MariadbScratch(Scratch):
    """A database of the server; before it is created, the server alone."""

    def __init__(self, connection: Connection, schema: str) -> None:
        address = address_of(connection)
        self.schema = schema
        path = f"/{quote(schema, safe='')}"
        self.connection = replace(connection, url=urlunsplit(urlsplit(connection.url)._replace(path=path)))
        arguments = {**address.arguments(), "database": None}
        try:
            self._session = pymysql.connect(
                **arguments, charset="utf8mb4", autocommit=True, program_name="tidegate certify"
            )
        except (pymysql.Error, OSError) as error:
            raise refused(connection.name, address.where, error) from error
        self.execute(SETTINGS)
        if self.contents() is not None:
            self._use()

    @property
    def _quoted(self) -> str:
        return "`" + self.schema.replace("`", "``") + "`"

    def _use(self) -> None:
        self.execute(f"USE {self._quoted}")

    def execute(self, sql: str) -> Sequence[Sequence[Any]]:
        """The rows of one statement."""
        with translated_errors(self.connection.name), self._session.cursor() as cursor:
            cursor.execute(sql)
            found: Sequence[Sequence[Any]] = cursor.fetchall()
            return found

    def contents(self) -> tuple[str, ...] | None:
        """Tables, views, routines and events."""
        name = literal(self.schema)
        if not self.execute(f"SELECT 1 FROM information_schema.schemata WHERE schema_name = {name}"):
            return None
        return tuple(str(row[0]) for row in self.execute(CONTENTS.format(schema=name)))

    def create(self) -> None:
        """A database."""
        self.execute(f"CREATE DATABASE {self._quoted} {UTF8}")
        self._use()

    def remove(self) -> None:
        """MariaDB would drop the tables with it, so they are looked for first."""
        if self.contents():
            raise SourceError(f"connection {self.connection.name!r}: database {self.schema} is not empty")
        self.execute(f"DROP DATABASE {self._quoted}")

    def connect_again(self) -> MariadbScratch:
        """Another connection."""
        return MariadbScratch(self.connection, self.schema)

    def disconnect(self) -> int:
        """Those whose database it is: streams name it in their URL."""
        name = literal(self.schema)
        found = self.execute(
            f"SELECT id FROM information_schema.processlist WHERE db = {name} AND id <> CONNECTION_ID()"
        )
        for (number,) in found:
            self.execute(f"KILL {int(number)}")
        return len(found)

    def close(self) -> None:
        """Ends the connection, and a transaction that is open."""
        self._session.close()


class MariadbCertification(Certification):
    """MariaDB 10.6 and later, and MySQL 8."""

    driver: ClassVar[str] = "pymysql"
    text: ClassVar[str] = f"varchar(200) {UTF8}"
    instant: ClassVar[str] = "timestamp(6) NULL"
    now: ClassVar[str] = "CURRENT_TIMESTAMP(6)"
    identity: ClassVar[str] = "bigint AUTO_INCREMENT"
    samples: ClassVar[tuple[Sample, ...]] = SAMPLES

    def server(self, connection: Connection) -> Server:
        """MariaDB changes its behaviour with the second number, MySQL with the first two as well."""
        there = MariadbScratch(connection, self.schema)
        try:
            ((version,),) = there.execute("SELECT VERSION()")
        finally:
            there.close()
        product = "MariaDB" if "mariadb" in str(version).lower() else "MySQL"
        return Server(product=product, version=str(version), major=".".join(str(version).split(".")[:2]))

    def open(self, connection: Connection, schema: str | None) -> MariadbScratch:
        """A database beside the URL's."""
        return MariadbScratch(connection, schema or self.schema)

    def string(self, text: str) -> str:
        """Its backslashes doubled, too."""
        return literal(text)
