"""What the kit writes to MariaDB: every type with its extremes, over a connection of its own."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from typing import ClassVar
from urllib.parse import quote, urlsplit, urlunsplit

from tidegate import extras
from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import doubled
from tidegate.dialects.mariadb.address import address_of
from tidegate.errors import EnvironmentMissing, SourceError
from tidegate_scenarios.certification import Certification, Sample, ServerScratch
from tidegate_scenarios.samples import NINES, blobs, column, days, decimals, integers, moments, plain, texts, uuids

try:
    import pymysql
except ModuleNotFoundError as error:
    raise EnvironmentMissing("the MariaDB driver is not installed", hint=extras.hint("mariadb")) from error
from tidegate.dialects.mariadb.errors import account, refused, translated_errors

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
    column("c_boolean", "tinyint(1)", ("0", False), ("1", True), read_as="boolean"),
    column("c_bit", "bit(1)", ("b'0'", False), ("b'1'", True)),
    decimals("c_decimal_38_0", 38, 0),
    decimals("c_decimal_38_10", 38, 10),
    decimals("c_decimal_5_5", 5, 5),
    column("c_decimal_65_2", "decimal(65,2)", (f"-{NINES}99999.99", f"-{NINES}99999.99"), ("0.01", "0.01")),
    column("c_float", "float", ("16777215", 16777215.0), ("-0.5", -0.5)),
    column(
        "c_double",
        "double",
        ("-1.7976931348623157e308", -1.7976931348623157e308),
        ("2.2250738585072014e-308", 2.2250738585072014e-308),
        ("0.1", 0.1),
    ),
    column("c_date", "date", *days()),
    column("c_datetime", "datetime(6)", *moments()),
    column(
        "c_timestamp",
        "timestamp(6) NULL",
        ("'1970-01-01 00:00:01.000001'", datetime(1970, 1, 1, 0, 0, 1, 1, tzinfo=UTC)),
        ("'2038-01-19 03:14:07.999999'", datetime(2038, 1, 19, 3, 14, 7, 999999, tzinfo=UTC)),
        ("'2025-03-30 02:30:00.000001'", datetime(2025, 3, 30, 2, 30, 0, 1, tzinfo=UTC)),
    ),
    column(
        "c_time",
        "time(6)",
        ("'-838:59:59.999999'", "-838:59:59.999999"),
        ("'838:59:59'", "838:59:59.000000"),
        ("'00:00:00.000001'", "00:00:00.000001"),
    ),
    column("c_text", f"text {UTF8}", *texts(literal)),
    column("c_varchar", f"varchar(20) {UTF8}", *texts(literal)),
    column("c_char", f"char(5) {UTF8}", ("'ab '", "ab"), ("' b'", " b"), ("''", "")),
    column("c_latin1", "varchar(9) CHARACTER SET latin1", ("'ü€'", "ü€"), ("'\\\\'", "\\")),
    column("c_enum", f"enum('ok', 'so so') {UTF8}", ("'so so'", "so so"), ("'ok'", "ok")),
    column("c_set", f"set('a', 'b') {UTF8}", ("'b,a'", "a,b"), ("''", "")),
    column("c_json", "json", ("""'{"b": 1,  "a":[1.0]}'""", '{"b": 1,  "a":[1.0]}'), ("'null'", "null")),
    column("c_uuid", "uuid", *uuids()),
    column("c_inet4", "inet4", ("'1.2.3.4'", "1.2.3.4"), ("'10.0.0.1'", "10.0.0.1")),
    column("c_inet6", "inet6", ("'::'", "::"), ("'::1'", "::1")),
    column("c_blob", "blob", *blobs()),
    column("c_varbinary", "varbinary(300)", *blobs()),
    column("c_binary", "binary(3)", ("x'00ff'", b"\x00\xff\x00"), ("x'ffffff'", b"\xff" * 3)),
    column(
        "c_point_as_text", "point", ("POINT(1, 2.5)", "POINT(1 2.5)"), ("POINT(-1, 0)", "POINT(-1 0)"), read_as="text"
    ),
)


class MariadbScratch(ServerScratch):
    """A database of the server; before it is created, the server alone."""

    def __init__(self, connection: Connection, schema: str) -> None:
        address = address_of(connection)
        path = f"/{quote(schema, safe='')}"
        there = replace(connection, url=urlunsplit(urlsplit(connection.url)._replace(path=path)))
        arguments = {**address.arguments(), "database": None}
        try:
            session = pymysql.connect(**arguments, charset="utf8mb4", autocommit=True, program_name="tidegate certify")
        except (pymysql.Error, OSError) as error:
            raise refused(connection.name, address.where, error) from error
        with session.cursor() as cursor:
            cursor.execute("SELECT CURRENT_USER()")
            self._account = account(str(cursor.fetchall()[0][0]))
        super().__init__(there, schema, session, lambda: MariadbScratch(connection, schema))
        self.execute(SETTINGS)
        if self.contents() is not None:
            self.execute(f"USE {self.quoted}")

    @property
    def quoted(self) -> str:
        """The name, in backticks."""
        return doubled(self.schema, "`")

    def translated(self) -> AbstractContextManager[None]:
        """By the number of the error."""
        return translated_errors(self.connection.name, self._account)

    def contents(self) -> tuple[str, ...] | None:
        """Tables, views, routines and events."""
        name = literal(self.schema)
        if not self.execute(f"SELECT 1 FROM information_schema.schemata WHERE schema_name = {name}"):
            return None
        return tuple(str(row[0]) for row in self.execute(CONTENTS.format(schema=name)))

    def create(self) -> None:
        """A database."""
        self.execute(f"CREATE DATABASE {self.quoted} {UTF8}")
        self.execute(f"USE {self.quoted}")

    def remove(self) -> None:
        """MariaDB would drop the tables with it, so they are looked for first."""
        if self.contents():
            raise SourceError(f"connection {self.connection.name!r}: database {self.schema} is not empty")
        self.execute(f"DROP DATABASE {self.quoted}")

    def disconnect(self) -> int:
        """Those whose database it is: streams name it in their URL."""
        name = literal(self.schema)
        found = self.execute(
            f"SELECT id FROM information_schema.processlist WHERE db = {name} AND id <> CONNECTION_ID()"
        )
        for (number,) in found:
            self.execute(f"KILL {int(number)}")
        return len(found)


class MariadbCertification(Certification):
    """MariaDB 10.6 and later, and MySQL 8."""

    kind: ClassVar[str] = "mariadb"
    driver: ClassVar[str] = "pymysql"
    text: ClassVar[str] = f"varchar(200) {UTF8}"
    instant: ClassVar[str] = "timestamp(6) NULL"
    now: ClassVar[str] = "CURRENT_TIMESTAMP(6)"
    identity: ClassVar[str] = "bigint AUTO_INCREMENT"
    samples: ClassVar[tuple[Sample, ...]] = SAMPLES

    def open(self, connection: Connection, schema: str | None) -> MariadbScratch:
        """A database beside the URL's."""
        return MariadbScratch(connection, schema or self.schema)

    def string(self, text: str) -> str:
        """Its backslashes doubled, too."""
        return literal(text)
