"""What SQL Server says and declares: errors, addresses and types, without a server."""

from __future__ import annotations

from pathlib import Path

import pymssql
import pytest

from tidegate.core.ids import Connection
from tidegate.core.schema import BIGINT, INT, TEXT, TIMESTAMP, Column
from tidegate.dialects.sqlserver import SqlServer
from tidegate.dialects.sqlserver.address import address_of
from tidegate.dialects.sqlserver.errors import number_and_text, refused, translate
from tidegate.dialects.sqlserver.session import SETTINGS
from tidegate.dialects.sqlserver.types import column_of, type_of
from tidegate.errors import (
    ColumnMissing,
    ConfigError,
    SchemaRefused,
    SourceError,
    SourceMoved,
    SourceRefused,
    SourceUnavailable,
)


@pytest.mark.parametrize(
    ("number", "text", "kind", "words"),
    [
        (208, "Invalid object name 'x'.", ColumnMissing, "Invalid object name"),
        (102, "Incorrect syntax near ','.", ConfigError, "Incorrect syntax"),
        (1205, "Transaction was deadlocked", SourceUnavailable, "deadlock"),
        (1222, "Lock request time out", SourceUnavailable, "holds a lock"),
        (3958, "version store is full", SourceUnavailable, "tempdb is full"),
        (3961, "modified by a DDL statement", SourceMoved, "altered"),
        (41332, "Memory optimized", SourceError, "in memory"),
        (20047, "DBPROCESS is dead", SourceUnavailable, "lost"),
        (8134, "Divide by zero of 4711", SourceError, "error 8134"),
        (245, "converting the nvarchar value 'tidegate: a value of x is bad [tidegate]' to int", SchemaRefused, "bad"),
        (245, "converting the varchar value 'hunter2' to int", SourceError, "error 245"),
    ],
)
def test_errors_name_no_value(number: int, text: str, kind: type, words: str) -> None:
    found = translate("erp", "[loader]", *number_and_text(pymssql.OperationalError((number, text.encode()))))
    assert type(found) is kind
    assert words in str(found)
    assert "hunter2" not in str(found)
    assert "4711" not in str(found)
    assert found.retryable == (kind in (SourceUnavailable, SourceMoved))


@pytest.mark.parametrize(
    ("text", "grant"),
    [
        (
            "The SELECT permission was denied on the object 'orders', database 'shop', schema 'dbo'.",
            "GRANT SELECT ON [dbo].[orders] TO [loader]",
        ),
        (
            "The SELECT permission was denied on the column 'n' of the object 'orders', database 'shop', schema 'dbo'.",
            "GRANT SELECT ON [dbo].[orders] TO [loader]",
        ),
        (
            "VIEW SERVER STATE permission was denied on object 'server', database 'master'.",
            "GRANT VIEW SERVER STATE TO [loader]",
        ),
    ],
)
def test_a_missing_grant_is_named(text: str, grant: str) -> None:
    assert f"`{grant}`" in translate("erp", "[loader]", 229, text).hint


def test_failed_logins() -> None:
    login = pymssql.OperationalError((18456, b"Login failed for user 'loader'.DB-Lib error message 20018"))
    assert isinstance(refused("erp", "h:1433", login, verified=True), SourceRefused)
    assert "refused the login" in str(refused("erp", "h:1433", login, verified=True))
    unknown = pymssql.OperationalError((4060, b'Cannot open database "x" requested by the login.'))
    assert "no such database" in str(refused("erp", "h:1433", unknown, verified=True))
    # The driver keeps the number of an error before.
    broken = pymssql.OperationalError(
        (18456, b"DB-Lib error message 20002, severity 9:\nTDS server connection failed (h)")
    )
    assert "sslrootcert" in refused("erp", "h:1433", broken, verified=True).hint
    assert refused("erp", "h:1433", broken, verified=False).retryable


def test_unreachable_by_the_real_driver() -> None:
    with pytest.raises(SourceUnavailable, match=r"127\.0\.0\.1:1 cannot be reached: connection refused") as found:
        SqlServer().open(Connection(name="erp", url="sqlserver://me:s3cr3t@127.0.0.1:1/shop?connect_timeout=3"))
    assert found.value.retryable
    assert "s3cr3t" not in f"{found.value}{found.value.hint}"


def test_beyond_this_machine_the_server_is_verified(tmp_path: Path) -> None:
    found = address_of(Connection(name="erp", url="sqlserver://me:p%40ss@db.example/shop"))
    assert (found.port, found.mode, found.arguments()["encryption"]) == (1433, "verify-full", "require")
    assert "check certificate hostname = yes" in found.settings()
    assert f"ca file = {found.authorities}" in found.settings()
    jdbc = found.jdbc(SETTINGS)
    assert jdbc.url == "jdbc:sqlserver://"
    wanted = {"encrypt": "true", "trustServerCertificate": "false", "serverName": "db.example", "password": "p@ss"}
    assert wanted.items() <= jdbc.properties.items()
    assert "p@ss" not in f"{found}{jdbc.url}"
    own = address_of(Connection(name="erp", url=f"sqlserver://me@127.0.0.1/shop?sslrootcert={tmp_path}/ca.pem"))
    assert (own.mode, own.authorities) == ("verify-full", f"{tmp_path}/ca.pem")


@pytest.mark.parametrize(
    ("mode", "encrypt", "trust", "driver"),
    [("disable", "false", "false", "off"), ("require", "true", "true", "require")],
)
def test_modes(mode: str, encrypt: str, trust: str, driver: str) -> None:
    connection = Connection(name="erp", url=f"mssql://me@db.example/shop?sslmode={mode}")
    found = address_of(connection)
    properties = found.jdbc("").properties
    assert (properties["encrypt"], properties["trustServerCertificate"]) == (encrypt, trust)
    assert found.arguments()["encryption"] == driver
    assert "ca file" not in found.settings()
    assert (SqlServer().in_the_clear(connection) is not None) == (mode in ("disable", "require"))


def test_types() -> None:
    assert (str(type_of("money")), str(type_of("timestamp"))) == ("decimal(19,4)", "bigint")
    assert column_of("x", ("sql_variant", True), None) == "sql_variant"
    with pytest.raises(SchemaRefused, match="cannot be read as 'text'"):
        column_of("x", ("geography", True), "text")


def test_an_index_over_the_column_itself_serves() -> None:
    """The condition for it holds for every row above the bound, also where the type rounds."""
    likely = SqlServer().likely_above
    above = "2025-01-01 00:00:00.003000"
    kept = Column(name="x", type=TIMESTAMP, native="datetime")
    assert likely("[x]", kept, above) == "[x] > CAST('2024-12-31T23:59:59.999' AS datetime)"
    assert likely("[x]", kept, "0001-01-01 00:00:00.000000") == "1 = 1"
    assert likely("[x]", Column(name="x", type=BIGINT, native="timestamp"), "7") == (
        "[x] > CAST(CAST(7 AS bigint) AS binary(8))"
    )
    assert likely("[x]", Column(name="x", type=INT, native="int"), "7") == "1 = 1"
    assert SqlServer().seek("[x]", Column(name="x", type=TEXT, native="varchar(9)"), ["it's"]) == "[x] IN (N'it''s')"
    assert SqlServer().seek("[x]", Column(name="x", type=TEXT, native="xml"), ["a"]) is None
