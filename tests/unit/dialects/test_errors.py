"""What the drivers say of errors: each becomes one of a few, names no value, and says what can be done."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from typing import Any

import pymssql
import pymysql
import pytest
import teradatasql
from snowflake.connector import errors as snowflake
from trino.exceptions import HttpError, TrinoConnectionError, TrinoUserError

from support import simulated_oracle, simulated_teradata
from tidegate import plugins
from tidegate.core.ids import Connection
from tidegate.core.schema import BIGINT, Column
from tidegate.dialects.mariadb import errors as of_mariadb
from tidegate.dialects.oracle import errors as of_oracle
from tidegate.dialects.snowflake import Snowflake
from tidegate.dialects.snowflake import errors as of_snowflake
from tidegate.dialects.sqlserver import errors as of_sqlserver
from tidegate.dialects.teradata import errors as of_teradata
from tidegate.dialects.trino import errors as of_trino
from tidegate.errors import (
    ColumnMissing,
    ConfigError,
    EnvironmentMissing,
    SchemaRefused,
    SourceError,
    SourceMoved,
    SourceRefused,
    SourceUnavailable,
    TidegateError,
)


def oracle(code: int, text: str) -> TidegateError:
    error = simulated_oracle.error(code, f"ORA-{code:05}: {text}")
    return of_oracle.translate("shop", "LOADER", *of_oracle.number_and_text(error))


def sqlserver(code: int, text: str) -> TidegateError:
    error = pymssql.OperationalError((code, text.encode()))
    return of_sqlserver.translate("shop", "[loader]", *of_sqlserver.number_and_text(error))


def mariadb(code: int, text: str) -> TidegateError:
    return of_mariadb.translate("shop", pymysql.OperationalError(code, text), "'loader'@'%'")


def teradata(code: int, text: str) -> TidegateError:
    return of_teradata.translate("shop", "loader", simulated_teradata.error(code, text))


def from_snowflake(code: int, text: str) -> TidegateError:
    error = snowflake.ProgrammingError(msg=text, errno=code, sqlstate="42000")
    return of_snowflake.translate("shop", "acme", error)


def trino(name: str, text: str) -> TidegateError:
    kind = "INSUFFICIENT_RESOURCES" if name == "QUERY_QUEUE_FULL" else "USER_ERROR"
    return of_trino.translate("shop", TrinoUserError({"errorName": name, "errorType": kind, "message": text}))


Translate = Callable[[Any, str], TidegateError]
DENIED = "The {} permission was denied on {}database 'shop', schema 'dbo'."
COMPILED = "SQL compilation error: error line 1 at position 7\n"
# Of the driver's number and words: the kind of error, words of its message, and words of its hint.
CASES: list[tuple[Translate, int | str, str, type[TidegateError], str, str]] = [
    (oracle, 904, '"X": invalid identifier', ColumnMissing, "invalid identifier", ""),
    (oracle, 936, "missing expression", ConfigError, "missing expression", ""),
    (oracle, 1031, "insufficient privileges", SourceError, "insufficient privileges", ""),
    (oracle, 60, "deadlock detected", SourceUnavailable, "deadlock", ""),
    (oracle, 1555, "snapshot too old: rollback segment 4711", SourceUnavailable, "ORA-01555", ""),
    (oracle, 8181, "not a valid system change number 4711", SourceError, "ORA-08181", ""),
    (oracle, 1466, "table definition has changed", SourceMoved, "altered", ""),
    (oracle, 1489, "result of string concatenation is too long", SourceError, "longer than VARCHAR2", ""),
    (oracle, 3113, "end-of-file on communication channel", SourceUnavailable, "lost", ""),
    (oracle, 1476, "divisor is equal to zero: hunter2", SourceError, "ORA-01476", ""),
    (oracle, 1722, "invalid number hunter2", SchemaRefused, "does not fit", ""),
    (sqlserver, 208, "Invalid object name 'x'.", ColumnMissing, "Invalid object name", ""),
    (sqlserver, 102, "Incorrect syntax near ','.", ConfigError, "Incorrect syntax", ""),
    (sqlserver, 1205, "Transaction was deadlocked", SourceUnavailable, "deadlock", ""),
    (sqlserver, 1222, "Lock request time out", SourceUnavailable, "holds a lock", ""),
    (sqlserver, 3958, "version store is full", SourceUnavailable, "tempdb is full", ""),
    (sqlserver, 3961, "modified by a DDL statement", SourceMoved, "altered", ""),
    (sqlserver, 41332, "Memory optimized", SourceError, "in memory", ""),
    (sqlserver, 20047, "DBPROCESS is dead", SourceUnavailable, "lost", ""),
    (sqlserver, 8134, "Divide by zero of 4711", SourceError, "error 8134", ""),
    (sqlserver, 245, "the nvarchar value 'tidegate: x is bad [tidegate]' to int", SchemaRefused, "bad", ""),
    (sqlserver, 245, "converting the varchar value 'hunter2' to int", SourceError, "error 245", ""),
    *(
        (
            sqlserver,
            229,
            DENIED.format(right, there),
            SourceError,
            "denied",
            f"`GRANT {right} ON [dbo].[o] TO [loader]`",
        )
        for right, there in (("SELECT", "the object 'o', "), ("SELECT", "the column 'n' of the object 'o', "))
    ),
    (
        *(sqlserver, 229, "VIEW SERVER STATE permission was denied on object 'server', database 'master'."),
        *(SourceError, "denied", "`GRANT VIEW SERVER STATE TO [loader]`"),
    ),
    *(
        (mariadb, code, text, SourceUnavailable, "takes no more connections", "MAX_USER_CONNECTIONS 20")
        for code, text in (
            (1040, "Too many connections"),
            (1203, "User loader already has more than 'max_user_connections' active connections"),
            (1226, "User 'loader' has exceeded the 'max_user_connections' resource (current value: 4711)"),
        )
    ),
    (mariadb, 1054, "Unknown column 'too many clients' in 'SELECT'", ColumnMissing, "too many clients", ""),
    (teradata, 3807, "Object 'x' does not exist.", ColumnMissing, "does not exist", ""),
    (teradata, 3706, "Syntax error: expected something between", ConfigError, "Syntax error", ""),
    (teradata, 5589, "Function 'HASH_MD5' does not exist.", SourceError, "hash_md5 is not installed", ""),
    (teradata, 5589, "Function 'SOMETHING' does not exist.", ConfigError, "does not exist", ""),
    (teradata, 2631, "Transaction aborted due to deadlock.", SourceUnavailable, "deadlock", ""),
    (teradata, 2652, "Operation not allowed: x is being Loaded.", SourceUnavailable, "being loaded", ""),
    (teradata, 2828, "Request was rolled back during system recovery.", SourceUnavailable, "restart", ""),
    (teradata, 2646, "No more spool space in loader.", SourceError, "spool space", ""),
    (teradata, 3798, "A column or character expression is larger than", SourceError, "longer than a VARCHAR", ""),
    (teradata, 2616, "Numeric overflow 4711 hunter2", SourceError, "error 2616", ""),
    (
        *(teradata, 3523, "The user does not have SELECT access to SALES.ORDERS."),
        *(SourceError, "", "`GRANT SELECT ON SALES.ORDERS TO loader`"),
    ),
    (from_snowflake, 904, f"{COMPILED}invalid identifier 'NOPE'", ColumnMissing, "NOPE", ""),
    (from_snowflake, 2003, f"{COMPILED}Object 'S.T' does not exist or not authorized.", ColumnMissing, "'S.T'", ""),
    (from_snowflake, 1003, f"{COMPILED}syntax error line 1 unexpected 'FORM'.", ConfigError, "FORM", "query"),
    (from_snowflake, 606, "No active warehouse selected.", SourceRefused, "no warehouse", "?warehouse="),
    (from_snowflake, 3001, "Insufficient privileges on table 'T'", SourceError, "may not do this", "docs/sources"),
    (from_snowflake, 707, "Time travel data is not available.", SourceMoved, "replaced meanwhile", "RETENTION"),
    (from_snowflake, 630, "Statement reached its timeout", SourceError, "STATEMENT_TIMEOUT", "ALTER USER"),
    (from_snowflake, 90105, "This session has no current database.", ConfigError, "no schema", "SCHEMA.TABLE"),
    (from_snowflake, 390114, "Authentication token has expired.", SourceUnavailable, "expired", ""),
    (from_snowflake, 100038, "Numeric value 'hunter2' is not recognized", SourceError, "", ""),
    (trino, "INVALID_CAST_ARGUMENT", "Cannot cast 'hunter2' to INT", SourceError, "INVALID_CAST_ARGUMENT", ""),
    (trino, "QUERY_QUEUE_FULL", "x", SourceUnavailable, "", ""),
    (trino, "PERMISSION_DENIED", "Cannot select", SourceError, "", "SELECT"),
]


@pytest.mark.parametrize(("translate", "code", "text", "kind", "words", "hint"), CASES)
def test_an_error_can_be_acted_on_and_names_no_value(translate: Translate, code, text, kind, words, hint) -> None:
    found = translate(code, text)
    assert isinstance(found, kind)
    assert words in str(found)
    assert hint in found.hint
    assert [secret for secret in ("hunter2", "4711", "gosqldriver") if secret in f"{found}{found.hint}"] == []
    assert translate is from_snowflake or found.retryable == (kind in (SourceUnavailable, SourceMoved))


def test_a_value_that_snowflake_does_not_take_is_named_by_its_column() -> None:
    mark = Snowflake().text("x", Column(name="x", type=BIGINT, native="NUMBER(38,0)"))
    said = mark.split("to_number('")[1].split("' ||")[0].replace("''", "'")
    found = from_snowflake(100038, f"Numeric value '{said}' is not recognized")
    assert str(found).endswith("column 'x' holds a value that does not fit bigint")


CONNECTING = "Can't connect to MySQL server on 'h' ({})"
UNVERIFIED = "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed"
GO = "[Version 20] [Teradata SQL Driver] [Error 519] x509: certificate signed by unknown authority"
# The driver keeps the number of an error before.
BROKEN = pymssql.OperationalError((18456, b"DB-Lib error message 20002, severity 9:\nTDS server connection failed (h)"))
LOGIN = pymssql.OperationalError((18456, b"Login failed for user 'loader'.DB-Lib error message 20018"))
UNKNOWN = pymssql.InterfaceError("Connection to the database failed for an unknown reason.")
ABSENT = pymssql.OperationalError((4060, b'Cannot open database "x" requested by the login.'))


@pytest.mark.parametrize(
    ("found", "kind", "words"),
    [
        *(
            (of_mariadb.refused("shop", "h:1", pymysql.OperationalError(2003, CONNECTING.format(said))), None, reason)
            for said, reason in (
                ("[Errno -2] Name or service not known", "unknown host"),
                ("[Errno -3] Temporary failure in name resolution", "unknown host"),
                ("[Errno 111] Connection refused", "connection refused"),
                ("timed out", "timed out"),
                ("[Errno 113] No route to host", "no route to the host"),
            )
        ),
        (of_sqlserver.refused("shop", "h:1", UNKNOWN, verified=False), None, "no connection, or unknown host"),
        (of_sqlserver.refused("shop", "h:1", BROKEN, verified=False), None, ""),
        (of_sqlserver.refused("shop", "h:1", BROKEN, verified=True), SourceRefused, "could not be verified"),
        (of_sqlserver.refused("shop", "h:1", LOGIN, verified=True), SourceRefused, "refused the login"),
        (of_sqlserver.refused("shop", "h:1", ABSENT, verified=True), SourceRefused, "no such database"),
        (
            of_oracle.refused("shop", "h:1", simulated_oracle.error(1017, "ORA-01017: invalid username/password")),
            SourceRefused,
            "refused the login",
        ),
        (of_oracle.refused("shop", "h:1", simulated_oracle.error(12514, "ORA-12514: no service")), SourceRefused, ""),
        (of_oracle.refused("shop", "h:1", simulated_oracle.error(12541, "ORA-12541: no listener")), None, ""),
        (of_oracle.refused("shop", "h:1", OSError("[Errno -2] Name or service not known")), None, "unknown host"),
        (of_oracle.refused("shop", "h:1", OSError(UNVERIFIED)), SourceRefused, "could not be verified"),
        (
            of_teradata.refused("shop", "h:1", simulated_teradata.error(8017, "The UserId is invalid.")),
            SourceRefused,
            "refused the login",
        ),
        (of_teradata.refused("shop", "h:1", teradatasql.OperationalError(GO)), SourceRefused, "could not be verified"),
        (of_trino.unreachable("shop", "h:1", HttpError("error 401: b'Unauthorized'")), SourceRefused, ""),
        (of_trino.unreachable("shop", "h:1", TrinoConnectionError("failed to resolve host")), None, ""),
        (  # a port is no status
            of_trino.unreachable("shop", "h:40123", TrinoConnectionError("port=40123): connection refused, 40123")),
            *(None, "h:40123 cannot be reached: connection refused"),
        ),
        *(
            (of_snowflake.refused("shop", "acme", error), kind, words)
            for error, kind, words in (
                (snowflake.DatabaseError(msg="JWT token is invalid."), SourceRefused, "refused the login"),
                (
                    snowflake.DatabaseError(msg="Programmatic access token is expired."),
                    *(SourceRefused, "refused the login"),
                ),
                (snowflake.HttpError(msg="404 Not Found"), SourceRefused, "no account"),
                (snowflake.OperationalError(msg="250001: Could not connect"), None, "cannot be reached"),
                (FileNotFoundError("/k.p8"), SourceRefused, "key cannot be read"),
                (
                    snowflake.ProgrammingError(msg="Failed to load private key", errno=251008),
                    *(SourceRefused, "key cannot be read"),
                ),
            )
        ),
    ],
)
def test_a_connection_that_fails(found: TidegateError, kind: type[TidegateError] | None, words: str) -> None:
    """None: the server cannot be reached, and another attempt may help."""
    assert words in found.message
    if kind is None:
        assert isinstance(found, SourceUnavailable)
        assert found.retryable
        assert "cannot be reached" in found.message
    else:
        assert isinstance(found, kind)
        assert not found.retryable


def test_of_oracle_no_mode_is_advised_that_it_has_not() -> None:
    assert "sslmode=require" not in of_oracle.refused("shop", "h:1", OSError(UNVERIFIED)).hint


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("oracle://me:s3cr3t@{}:1/x?connect_timeout=3", "connection refused"),
        ("sqlserver://me:s3cr3t@{}:1/x?connect_timeout=3", "connection refused"),
        ("teradata://me:s3cr3t@{}:1/x?sslmode=disable&connect_timeout=3", "connection refused|no connection"),
    ],
)
def test_a_server_that_the_real_driver_cannot_reach(url: str, words: str) -> None:
    hosts = {"127.0.0.1": words} | ({} if url.startswith("sqlserver") else {"nowhere.invalid": "unknown host"})
    for host, reason in hosts.items():
        connection = Connection(name="shop", url=url.format(host))
        with pytest.raises(SourceUnavailable, match=f"{host}:1 cannot be reached: ({reason})") as found:
            plugins.dialect_of(connection.scheme)().open(connection)
        assert found.value.retryable
        assert "s3cr3t" not in f"{found.value}{found.value.hint}"


@pytest.mark.parametrize(
    ("kind", "package", "url"),
    [
        ("duckdb", "duckdb", "duckdb:///x"),
        ("mariadb", "pymysql", "mariadb:///x"),
        ("oracle", "oracledb", "oracle://me@127.0.0.1:1/shop"),
        ("snowflake", "snowflake", "snowflake://me:pw@acme/shop"),
        ("sqlserver", "pymssql", "sqlserver://me@127.0.0.1:1/shop"),
        ("teradata", "teradatasql", "teradata://me@127.0.0.1:1/shop"),
        ("trino", "trino", "trino://me@127.0.0.1:1/memory"),
    ],
)
def test_a_driver_that_is_missing_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, kind: str, package: str, url: str
) -> None:
    dialect = plugins.dialect_of(kind)()
    monkeypatch.delitem(sys.modules, f"tidegate.dialects.{kind}.session", raising=False)
    real = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name.split(".", maxsplit=1)[0] == package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=package)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(EnvironmentMissing) as missing:
        dialect.open(Connection(name="c", url=url))
    assert f"the extra `{kind}`: `" in missing.value.hint
