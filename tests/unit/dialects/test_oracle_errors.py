"""What Oracle says and declares: errors, addresses and types, without a server."""

from __future__ import annotations

import pytest

from support.simulated_oracle import error
from tidegate.core.ids import Connection
from tidegate.core.schema import TIMESTAMP, Column
from tidegate.dialects.oracle import Oracle
from tidegate.dialects.oracle.address import address_of
from tidegate.dialects.oracle.errors import number_and_text, refused, translate
from tidegate.dialects.oracle.types import Native, column_of
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
    ("code", "text", "kind", "words"),
    [
        (904, 'ORA-00904: "X": invalid identifier', ColumnMissing, "invalid identifier"),
        (936, "ORA-00936: missing expression", ConfigError, "missing expression"),
        (1031, "ORA-01031: insufficient privileges", SourceError, "insufficient privileges"),
        (60, "ORA-00060: deadlock detected", SourceUnavailable, "deadlock"),
        (1555, "ORA-01555: snapshot too old: rollback segment 4711", SourceUnavailable, "ORA-01555"),
        (8181, "ORA-08181: not a valid system change number 4711", SourceError, "ORA-08181"),
        (1466, "ORA-01466: table definition has changed", SourceMoved, "altered"),
        (1489, "ORA-01489: result of string concatenation is too long", SourceError, "longer than VARCHAR2"),
        (3113, "ORA-03113: end-of-file on communication channel", SourceUnavailable, "lost"),
        (1476, "ORA-01476: divisor is equal to zero: hunter2", SourceError, "ORA-01476"),
        (1722, "ORA-01722: invalid number hunter2", SchemaRefused, "does not fit"),
    ],
)
def test_errors_name_no_value(code: int, text: str, kind: type, words: str) -> None:
    found = translate("erp", "LOADER", *number_and_text(error(code, text)))
    assert type(found) is kind
    assert words in str(found)
    assert "hunter2" not in str(found)
    assert "4711" not in str(found)
    assert found.retryable == (kind in (SourceUnavailable, SourceMoved))


def test_failed_logins() -> None:
    assert "refused the login" in str(refused("erp", "h:1", error(1017, "ORA-01017: invalid username/password")))
    assert isinstance(refused("erp", "h:1", error(12514, "ORA-12514: service x is not registered")), SourceRefused)
    assert refused("erp", "h:1", error(12541, "ORA-12541: no listener")).retryable
    assert refused("erp", "h:1", OSError("[Errno -2] Name or service not known")).retryable
    unverified = refused("erp", "h:1", OSError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed"))
    assert isinstance(unverified, SourceRefused)
    assert "sslmode=require" not in unverified.hint


@pytest.mark.parametrize(("host", "words"), [("127.0.0.1", "connection refused"), ("nowhere.invalid", "unknown host")])
def test_unreachable_by_the_real_driver(host: str, words: str) -> None:
    url = f"oracle://me:s3cr3t@{host}:1/x?connect_timeout=3"
    with pytest.raises(SourceUnavailable, match=f"{host}:1 cannot be reached: {words}") as found:
        Oracle().open(Connection(name="erp", url=url))
    assert found.value.retryable
    assert "s3cr3t" not in f"{found.value}{found.value.hint}"


def test_beyond_this_machine_the_server_is_verified() -> None:
    found = address_of(Connection(name="erp", url="oracle://me:p%40ss@db.example/shop.example"))
    arguments = found.arguments()
    assert (found.port, arguments["protocol"], arguments["ssl_server_dn_match"]) == (2484, "tcps", True)
    assert arguments["ssl_context"].check_hostname
    jdbc = found.jdbc("BEGIN NULL; END;")
    assert jdbc.url == "jdbc:oracle:thin:@tcps://db.example:2484/shop.example"
    assert jdbc.properties["oracle.net.ssl_server_dn_match"] == "true"
    assert "p@ss" not in f"{found}{jdbc.url}"
    assert Oracle().in_the_clear(Connection(name="erp", url="oracle://me@db.example/x")) is None
    plain = Connection(name="erp", url="oracle://me@db.example/x?sslmode=disable")
    assert address_of(plain).jdbc("").url == "jdbc:oracle:thin:@tcp://db.example:1521/x"
    assert "ssl_context" not in address_of(plain).arguments()
    assert "may read and change" in Oracle().in_the_clear(plain)


@pytest.mark.parametrize(
    ("native", "spark", "label"),
    [
        (Native(word="NUMBER", digits=9), "int", "NUMBER(9,0)"),
        (Native(word="NUMBER", digits=18), "bigint", "NUMBER(18,0)"),
        (Native(word="NUMBER", digits=19), "decimal(19,0)", "NUMBER(19,0)"),
        (Native(word="NUMBER", digits=10, scale=2), "decimal(10,2)", "NUMBER(10,2)"),
        (Native(word="NUMBER", digits=5, scale=-2), "int", "NUMBER(5,-2)"),
        (Native(word="NUMBER", digits=2, scale=5), "decimal(5,5)", "NUMBER(2,5)"),
        (Native(word="NUMBER", digits=38, scale=-3), "string", "NUMBER"),
        (Native(word="NUMBER", scale=-127), "string", "NUMBER"),
        (Native(word="NUMBER", digits=126, scale=-127), "string", "NUMBER"),
        (Native(word="DATE"), "timestamp_ntz", "DATE"),
        (Native(word="TIMESTAMP_LTZ", scale=6), "timestamp", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
        (Native(word="RAW", digits=16), "binary", "RAW(16)"),
    ],
)
def test_types(native: Native, spark: str, label: str) -> None:
    found = column_of("x", native, None)
    assert not isinstance(found, str)
    assert (found.type.spark, found.native) == (spark, label)


def test_types_that_are_stated() -> None:
    assert column_of("x", Native(word="CLOB"), None) == "CLOB"
    uuid = column_of("x", Native(word="RAW", digits=16), "uuid")
    assert Oracle().text('"x"', uuid).startswith("lower(regexp_replace(rawtohex(")
    for native, wanted in ((Native(word="CLOB"), "text"), (Native(word="RAW", digits=8), "uuid")):
        with pytest.raises(SchemaRefused, match="cannot be read as"):
            column_of("x", native, wanted)


def test_a_date_is_compared_by_its_index() -> None:
    column = Column(name="D", type=TIMESTAMP, native="DATE")
    assert Oracle().likely_above('"D"', column, "2025-01-01 10:00:00.500000") == (
        "\"D\" >= to_date('2025-01-01 10:00:00', 'YYYY-MM-DD HH24:MI:SS')"
    )
