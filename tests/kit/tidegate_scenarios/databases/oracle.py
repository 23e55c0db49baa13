"""What the kit writes to Oracle: every type with its extremes, over a connection of its own."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import UTC, date, datetime
from typing import ClassVar

from tidegate import extras
from tidegate.core.ids import Connection
from tidegate.dialects.oracle.address import address_of
from tidegate.errors import ConfigError, EnvironmentMissing
from tidegate_scenarios.certification import Certification, Sample, ServerScratch
from tidegate_scenarios.samples import TEXTS, UUIDS, Values, column, decimals, integers, plain

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
    column("c_number_as_bigint", "number", (str(-(2**63)), -(2**63)), (str(2**63 - 1), 2**63 - 1), read_as="bigint"),
    column("c_number_as_boolean", "number(1)", ("0", False), ("1", True), read_as="boolean"),
    column("c_number", "number", ("-1.50", "-1.5"), ("1E-10", ".0000000001"), ("7", "7")),
    column(
        "c_binary_float", "binary_float", ("to_binary_float(16777215)", 16777215.0), ("to_binary_float(-0.5)", -0.5)
    ),
    column(
        "c_binary_double",
        "binary_double",
        ("to_binary_double('-1.7976931348623157E308')", -1.7976931348623157e308),
        ("to_binary_double(0.1)", 0.1),
    ),
    column("c_date", "date", *_moments(SECOND, digits=19)),
    column(
        "c_date_as_date",
        "date",
        *tuple((f"DATE '{day}'", date.fromisoformat(day)) for day in ("0001-01-01", "9999-12-31", "1582-10-04")),
        read_as="date",
    ),
    column("c_timestamp", "timestamp(6)", *_moments("TIMESTAMP '{}'")),
    column(
        "c_timestamp_9",
        "timestamp(9)",
        ("TIMESTAMP '2025-12-31 23:59:59.999999999'", datetime.fromisoformat("2025-12-31 23:59:59.999999")),
        ("TIMESTAMP '2025-01-01 00:00:00.123456789'", datetime.fromisoformat("2025-01-01 00:00:00.123456")),
    ),
    column("c_timestamp_tz", "timestamp(6) with time zone", *_moments("TIMESTAMP '{} +00:00'", instants=True)),
    column(
        "c_timestamp_ltz", "timestamp(6) with local time zone", *_moments("TIMESTAMP '{} +00:00'", instants=True)[2:]
    ),
    # An empty text is NULL, which every column gets.
    column("c_varchar2", "varchar2(20 char)", *tuple((plain(text), text) for text in TEXTS if text)),
    column("c_nvarchar2", "nvarchar2(20)", ("N'\u00fc '", "\u00fc "), ("N'~N|'", "~N|")),
    column("c_char", "char(5 char)", ("'ab '", "ab"), ("' b'", " b")),
    column(
        "c_raw", "raw(300)", (f"hextoraw('{bytes(range(256)).hex()}')", bytes(range(256))), ("hextoraw('00')", b"\x00")
    ),
    column(
        "c_raw_as_uuid",
        "raw(16)",
        *tuple((f"hextoraw('{text.replace('-', '')}')", text) for text in UUIDS),
        read_as="uuid",
    ),
)


class OracleScratch(ServerScratch):
    """A schema, which is a user of the database and was created by an administrator.

    Args:
        connect: the driver's function.
    """

    def __init__(self, connection: Connection, schema: str | None, connect: Connect = oracledb.connect) -> None:
        address = address_of(connection)
        self.user = address.user.upper()
        try:
            session = connect(**address.arguments())
        except (oracledb.Error, OSError) as error:
            raise refused(connection.name, address.where, error) from error
        super().__init__(connection, schema or self.user, session, lambda: OracleScratch(connection, schema, connect))
        self.session.autocommit = True
        self.execute("ALTER SESSION SET TIME_ZONE = 'UTC'")

    def translated(self) -> AbstractContextManager[None]:
        """With what the user lacks."""
        return translated_errors(self.connection.name, self.user)

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

    def begin(self) -> None:
        """A transaction begins with the first statement."""
        self.session.autocommit = False

    def commit(self) -> None:
        """Commits it."""
        self.execute("COMMIT")
        self.session.autocommit = True


class OracleCertification(Certification):
    """Oracle 12.2 and later.

    Args:
        connect: the driver's function.
    """

    kind: ClassVar[str] = "oracle"
    driver: ClassVar[str] = "oracledb"
    integer: ClassVar[str] = "number(18)"
    text: ClassVar[str] = "varchar2(200 char)"
    instant: ClassVar[str] = "timestamp(6) with time zone"
    now: ClassVar[str] = "systimestamp"
    identity: ClassVar[str] = "number(18) GENERATED BY DEFAULT AS IDENTITY"
    samples: ClassVar[tuple[Sample, ...]] = SAMPLES

    def __init__(self, connect: Connect = oracledb.connect) -> None:
        self._connect = connect

    def open(self, connection: Connection, schema: str | None) -> OracleScratch:
        """The user's own schema unless another one is named."""
        return OracleScratch(connection, schema, self._connect)

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        """Few versions take more than one row of VALUES."""
        each = " UNION ALL ".join(f"SELECT {', '.join(row)} FROM dual" for row in rows)
        return f"INSERT INTO {table} ({', '.join(columns)}) {each}"
