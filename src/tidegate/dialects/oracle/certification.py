"""What `tidegate certify` writes to Oracle: every type with its extremes, over a connection of its own."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any, ClassVar

from tidegate import extras
from tidegate.core.ids import Connection
from tidegate.core.ports.certification import Certification, Sample, Scratch, Server
from tidegate.dialects.oracle.address import address_of
from tidegate.dialects.shared.samples import TEXTS, UUIDS, Values, decimals, integers, plain
from tidegate.errors import ConfigError, EnvironmentMissing

try:
    import oracledb
except ModuleNotFoundError as error:
    raise EnvironmentMissing("the Oracle driver is not installed", hint=extras.hint("oracle")) from error
from tidegate.dialects.oracle.errors import refused, translated_errors
from tidegate.dialects.oracle.session import Connect

# No day of October 1582 that the calendar left out: Oracle has none of these.
MOMENTS = (
    "0001-01-01 00:00:00.000000",
    "9999-12-31 23:59:59.999999",
    "1582-10-04 12:34:56.789012",
    "1969-12-31 23:59:59.999999",
    "2025-03-30 02:30:00.000001",
)
SECOND = "to_date('{}', 'YYYY-MM-DD HH24:MI:SS')"
# What is dropped stays under such a name until it is purged. Indexes, and sequences of identity columns, are parts of
# their tables.
CONTENTS = """
SELECT o.object_name FROM all_objects o WHERE o.owner = {schema} AND o.object_name NOT LIKE 'BIN$%'
AND o.object_type NOT IN ('INDEX', 'LOB') AND o.object_name NOT LIKE 'ISEQ$$%' ORDER BY 1
"""


def _moments(form: str, *, instants: bool = False, digits: int = 26) -> Values:
    zone = UTC if instants else None
    return tuple(
        (form.format(text[:digits]), datetime.fromisoformat(text[:digits]).replace(tzinfo=zone)) for text in MOMENTS
    )


SAMPLES = (
    integers("c_number_9", "number(9)", -(10**9) + 1, 10**9 - 1),
    integers("c_number_18", "number(18)", -(10**18) + 1, 10**18 - 1),
    decimals("c_number_38_0", 38, 0, kind="number"),
    decimals("c_number_38_10", 38, 10, kind="number"),
    decimals("c_number_5_5", 5, 5, kind="number"),
    Sample(
        name="c_number_as_bigint",
        declaration="number",
        read_as="bigint",
        values=((str(-(2**63)), -(2**63)), (str(2**63 - 1), 2**63 - 1)),
    ),
    Sample(name="c_number_as_boolean", declaration="number(1)", read_as="boolean", values=(("0", False), ("1", True))),
    Sample(name="c_number", declaration="number", values=(("-1.50", "-1.5"), ("1E-10", ".0000000001"), ("7", "7"))),
    Sample(
        name="c_binary_float",
        declaration="binary_float",
        values=(("to_binary_float(16777215)", 16777215.0), ("to_binary_float(-0.5)", -0.5)),
    ),
    Sample(
        name="c_binary_double",
        declaration="binary_double",
        values=(
            ("to_binary_double('-1.7976931348623157E308')", -1.7976931348623157e308),
            ("to_binary_double(0.1)", 0.1),
        ),
    ),
    Sample(name="c_date", declaration="date", values=_moments(SECOND, digits=19)),
    Sample(
        name="c_date_as_date",
        declaration="date",
        read_as="date",
        values=tuple((f"DATE '{day}'", date.fromisoformat(day)) for day in ("0001-01-01", "9999-12-31", "1582-10-04")),
    ),
    Sample(name="c_timestamp", declaration="timestamp(6)", values=_moments("TIMESTAMP '{}'")),
    Sample(
        name="c_timestamp_9",
        declaration="timestamp(9)",
        values=(
            ("TIMESTAMP '2025-12-31 23:59:59.999999999'", datetime(2025, 12, 31, 23, 59, 59, 999999)),  # noqa: DTZ001
            ("TIMESTAMP '2025-01-01 00:00:00.123456789'", datetime(2025, 1, 1, 0, 0, 0, 123456)),  # noqa: DTZ001
        ),
    ),
    Sample(
        name="c_timestamp_tz",
        declaration="timestamp(6) with time zone",
        values=_moments("TIMESTAMP '{} +00:00'", instants=True),
    ),
    Sample(
        name="c_timestamp_ltz",
        declaration="timestamp(6) with local time zone",
        values=_moments("TIMESTAMP '{} +00:00'", instants=True)[2:],
    ),
    # An empty text is NULL, which every column gets.
    Sample(
        name="c_varchar2",
        declaration="varchar2(20 char)",
        values=tuple((plain(text), text) for text in TEXTS if text),
    ),
    Sample(name="c_nvarchar2", declaration="nvarchar2(20)", values=(("N'\u00fc '", "\u00fc "), ("N'~N|'", "~N|"))),
    Sample(name="c_char", declaration="char(5 char)", values=(("'ab '", "ab"), ("' b'", " b"))),
    Sample(
        name="c_raw",
        declaration="raw(300)",
        values=((f"hextoraw('{bytes(range(256)).hex()}')", bytes(range(256))), ("hextoraw('00')", b"\x00")),
    ),
    Sample(
        name="c_raw_as_uuid",
        declaration="raw(16)",
        read_as="uuid",
        values=tuple((f"hextoraw('{text.replace('-', '')}')", text) for text in UUIDS),
    ),
)


class OracleScratch(Scratch):
    """A schema, which is a user of the database and was created by an administrator.

    Args:
        connect: the driver's function.
    """

    def __init__(self, connection: Connection, schema: str | None, connect: Connect = oracledb.connect) -> None:
        address = address_of(connection)
        self.connection, self._driver, self._user = connection, connect, address.user.upper()
        self.schema = schema or self._user
        try:
            self._session = connect(**address.arguments())
        except (oracledb.Error, OSError) as error:
            raise refused(connection.name, address.where, error) from error
        self._session.autocommit = True
        self.execute("ALTER SESSION SET TIME_ZONE = 'UTC'")

    @property
    def version(self) -> str:
        """The server's."""
        return str(self._session.version)

    def execute(self, sql: str) -> Sequence[Sequence[Any]]:
        """The rows of one statement."""
        with translated_errors(self.connection.name, self._user), self._session.cursor() as cursor:
            cursor.execute(sql)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    def contents(self) -> tuple[str, ...] | None:
        """Objects of every kind."""
        name = plain(self.schema)
        if not self.execute(f"SELECT 1 FROM all_users u WHERE u.username = {name}"):
            return None
        return tuple(str(row[0]) for row in self.execute(CONTENTS.format(schema=name)))

    def create(self) -> None:
        """Never."""
        raise ConfigError(
            f"there is no user {self.schema}, and a schema of Oracle is a user",
            hint="Let an administrator create one, and use its login: without `--schema` its own schema is used.",
        )

    def remove(self) -> None:
        """Never, for `create` makes none."""
        raise ConfigError(f"the schema {self.schema} is that of a user, who stays")

    def connect_again(self) -> OracleScratch:
        """Another connection."""
        return OracleScratch(self.connection, self.schema, self._driver)

    def begin(self) -> None:
        """A transaction begins with the first statement."""
        self._session.autocommit = False

    def commit(self) -> None:
        """Commits it."""
        self.execute("COMMIT")
        self._session.autocommit = True

    def close(self) -> None:
        """Ends the connection, and a transaction that is open."""
        self._session.close()


class OracleCertification(Certification):
    """Oracle 12.2 and later.

    Args:
        connect: the driver's function.
    """

    driver: ClassVar[str] = "oracledb"
    integer: ClassVar[str] = "number(18)"
    text: ClassVar[str] = "varchar2(200 char)"
    instant: ClassVar[str] = "timestamp(6) with time zone"
    now: ClassVar[str] = "systimestamp"
    identity: ClassVar[str] = "number(18) GENERATED BY DEFAULT AS IDENTITY"
    samples: ClassVar[tuple[Sample, ...]] = SAMPLES

    def __init__(self, connect: Connect = oracledb.connect) -> None:
        self._connect = connect

    def server(self, connection: Connection) -> Server:
        """The number before the first dot is that of a release."""
        there = self.open(connection, None)
        try:
            version = there.version
        finally:
            there.close()
        return Server(product="Oracle", version=version, major=version.partition(".")[0])

    def open(self, connection: Connection, schema: str | None) -> OracleScratch:
        """The user's own schema unless another one is named."""
        return OracleScratch(connection, schema, self._connect)

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        """Few versions take more than one row of VALUES."""
        each = " UNION ALL ".join(f"SELECT {', '.join(row)} FROM dual" for row in rows)
        return f"INSERT INTO {table} ({', '.join(columns)}) {each}"
