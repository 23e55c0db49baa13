"""Snowflake without a server: addresses, logins, errors of the real driver, types, and a driver that is missing."""

from __future__ import annotations

import base64

import pytest
from snowflake.connector import errors as driver

from tidegate.core.column_selection import ColumnSelection
from tidegate.core.ids import Connection
from tidegate.core.schema import BIGINT, JSON, TEXT, Column
from tidegate.dialects.shared.columns import described
from tidegate.dialects.snowflake import Snowflake
from tidegate.dialects.snowflake.address import SESSION, address_of
from tidegate.dialects.snowflake.errors import refused, translate
from tidegate.dialects.snowflake.types import DOCUMENTS, Native, column_of
from tidegate.errors import (
    ColumnMissing,
    ConfigError,
    SchemaRefused,
    SourceError,
    SourceMoved,
    SourceRefused,
    SourceUnavailable,
)

KEY = base64.b64encode(b"a key in DER").decode()
PEM = f"-----BEGIN PRIVATE KEY-----%0A{KEY}%0A-----END PRIVATE KEY-----%0A".replace("+", "%2B").replace(" ", "%20")


def found(rest: str):
    """The address of such a URL."""
    return address_of(Connection(name="snow", url=f"snowflake://{rest}"))


@pytest.mark.parametrize(
    ("host", "there", "account"),
    [
        ("acme-shop", "acme-shop.snowflakecomputing.com", "acme-shop"),
        ("acme-my_shop", "acme-my-shop.snowflakecomputing.com", "acme-my-shop"),
        ("xy12345.eu-central-1", "xy12345.eu-central-1.snowflakecomputing.com", "xy12345.eu-central-1"),
        ("acme-shop.privatelink", "acme-shop.privatelink.snowflakecomputing.com", "acme-shop.privatelink"),
        ("acme-shop.snowflakecomputing.com", "acme-shop.snowflakecomputing.com", "acme-shop"),
        ("acme-shop.snowflakecomputing.cn", "acme-shop.snowflakecomputing.cn", "acme-shop"),
    ],
)
def test_accounts(host: str, there: str, account: str) -> None:
    address = found(f"me:p%40ss@{host}/SHOP/PUBLIC?warehouse=LOAD_WH&role=LOADER")
    assert (address.where, address.account) == (there, account)
    jdbc = address.jdbc()
    assert jdbc.url == f"jdbc:snowflake://{there}/"
    named = {"db": "SHOP", "schema": "PUBLIC", "warehouse": "LOAD_WH", "role": "LOADER", "user": "me"}
    assert jdbc.properties.items() >= {**named, **SESSION, "password": "p@ss"}.items()
    assert "ssl" not in jdbc.properties
    assert "protocol" not in address.arguments()
    assert "p@ss" not in f"{address}{jdbc.url}"


@pytest.mark.parametrize(
    ("rest", "python", "java"),
    [
        (
            "me:pw@a/d",
            {"authenticator": "snowflake", "password": "pw"},
            {"authenticator": "snowflake", "password": "pw"},
        ),
        (
            "me@a/d?token=t%2Bt",
            {"authenticator": "programmatic_access_token", "token": "t+t"},
            {"authenticator": "programmatic_access_token", "token": "t+t"},
        ),
        (
            "me@a/d?authenticator=oauth&token=tt",
            {"authenticator": "oauth", "token": "tt"},
            {"authenticator": "oauth", "token": "tt"},
        ),
        (
            f"me@a/d?private_key={PEM}",
            {"authenticator": "snowflake_jwt", "private_key": KEY},
            {"authenticator": "snowflake_jwt", "private_key_base64": KEY},
        ),
        (
            "me@a/d?private_key_file=/k.p8&private_key_file_pwd=pp",
            {"authenticator": "snowflake_jwt", "private_key_file": "/k.p8", "private_key_file_pwd": "pp"},
            {"authenticator": "snowflake_jwt", "private_key_file": "/k.p8", "private_key_file_pwd": "pp"},
        ),
    ],
)
def test_logins(rest: str, python: dict[str, str], java: dict[str, str]) -> None:
    address = found(rest)
    assert address.arguments().items() >= python.items()
    assert address.jdbc().properties.items() >= java.items()
    assert not any(secret in repr(address) for secret in ("pw'", "t+t", "'tt'", KEY, "'pp'"))


def test_an_emulator_on_this_machine_is_asked_without_tls() -> None:
    address = found("me:pw@127.0.0.1:8080/d")
    assert address.arguments().items() >= {"host": "127.0.0.1", "port": 8080, "protocol": "http"}.items()
    assert address.jdbc().url == "jdbc:snowflake://http://127.0.0.1:8080/"


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("s3cr3t:pw@acme", "no user or no database"),
        ("acme/d", "no user or no database"),
        ("me:s3cr3t@acme/d/s/t", "no user or no database"),
        ("me:s3cr3t@acme:8080/d", "over TLS at its own port"),
        ("me:s3cr3t@127.0.0.1/d", "has a port"),
        ("me@acme/d", "no password, key or token"),
        ("me:@acme/d", "'password' has no value"),
        ("me@acme/d?token=", "'token' has no value"),
        ("me:s3cr3t@acme/d?role=", "'role' has no value"),
        ("me:s3cr3t@acme/d?token=s3cr3t", "names password and token"),
        ("me:s3cr3t@acme/d?authenticator=externalbrowser", "authenticator must be snowflake"),
        ("me@acme/d?authenticator=snowflake&token=s3cr3t", "programmatic_access_token or oauth"),
        ("me@acme/d?token=t&private_key_file_pwd=s3cr3t", "belongs to private_key_file"),
        ("me@acme/d?private_key=s3cr3t!", "no unencrypted key"),
        ("me:s3cr3t@acme/d?warehous=x", "option 1 of the URL is not known; did you mean 'warehouse'"),
    ],
)
def test_url_that_says_too_little_or_too_much(rest: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as wrong:
        found(rest)
    assert "s3cr3t" not in f"{wrong.value}{wrong.value.hint}"
    assert wrong.value.__cause__ is None


@pytest.mark.parametrize(
    ("number", "text", "kind", "said", "hint"),
    [
        (
            904,
            "SQL compilation error: error line 1 at position 7\ninvalid identifier 'NOPE'",
            ColumnMissing,
            "NOPE",
            "",
        ),
        (2003, "SQL compilation error:\nObject 'S.T' does not exist or not authorized.", ColumnMissing, "'S.T'", ""),
        (1003, "SQL compilation error:\nsyntax error line 1 unexpected 'FORM'.", ConfigError, "FORM", "query"),
        (606, "No active warehouse selected in the current session.", SourceRefused, "no warehouse", "?warehouse="),
        (3001, "Insufficient privileges to operate on table 'T'", SourceError, "may not do this", "docs/sources"),
        (707, "Time travel data is not available for table T.", SourceMoved, "replaced meanwhile", "RETENTION"),
        (630, "Statement reached its statement timeout", SourceError, "STATEMENT_TIMEOUT", "ALTER USER"),
        (90105, "This session does not have a current database.", ConfigError, "no schema", "SCHEMA.TABLE"),
        (390114, "Authentication token has expired.", SourceUnavailable, "expired", ""),
    ],
)
def test_errors_can_be_acted_on(number: int, text: str, kind: type, said: str, hint: str) -> None:
    error = translate("snow", "acme", driver.ProgrammingError(msg=text, errno=number, sqlstate="42000"))
    assert isinstance(error, kind)
    assert said in str(error)
    assert hint in error.hint


def test_errors_name_no_value() -> None:
    error = driver.ProgrammingError(msg="Numeric value 'hunter2' is not recognized", errno=100038, sqlstate="22018")
    assert "hunter2" not in str(translate("snow", "acme", error))
    mark = Snowflake().text("x", Column(name="x", type=BIGINT, native="NUMBER(38,0)"))
    said = mark.split("to_number('")[1].split("' ||")[0].replace("''", "'")
    error = driver.ProgrammingError(msg=f"Numeric value '{said}' is not recognized", errno=100038, sqlstate="22018")
    assert str(translate("snow", "acme", error)).endswith("column 'x' holds a value that does not fit bigint")


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (driver.DatabaseError(msg="Failed to connect: JWT token is invalid."), SourceRefused, "refused the login"),
        (driver.DatabaseError(msg="Programmatic access token is expired."), SourceRefused, "refused the login"),
        (driver.HttpError(msg="404 Not Found"), SourceRefused, "no account"),
        (driver.OperationalError(msg="250001: Could not connect"), SourceUnavailable, "cannot be reached"),
        (FileNotFoundError("/k.p8"), SourceRefused, "key cannot be read"),
        (driver.ProgrammingError(msg="Failed to load private key", errno=251008), SourceRefused, "key cannot be read"),
    ],
)
def test_connections_that_fail(error: Exception, kind: type, said: str) -> None:
    found = refused("snow", "acme.snowflakecomputing.com", error)
    assert isinstance(found, kind)
    assert said in str(found)


@pytest.mark.parametrize(
    ("native", "override", "kind"),
    [
        (Native(name="FIXED", precision=38, scale=0), None, "decimal(38,0)"),
        (Native(name="FIXED", precision=38, scale=0), "bigint", "bigint"),
        (Native(name="FIXED", precision=12, scale=2), "text", "string"),
        (Native(name="REAL"), None, "double"),
        (Native(name="TIMESTAMP_TZ", scale=9), None, "timestamp"),
        (Native(name="TIMESTAMP_LTZ", scale=3), "text", "string"),
        (Native(name="VARIANT"), "json", "string"),
        (Native(name="OBJECT"), "text", "string"),
    ],
)
def test_types(native: Native, override: str | None, kind: str) -> None:
    column = column_of("x", native, override)
    assert isinstance(column, Column)
    assert column.type.stored.spark == kind
    assert column.native == native.word


@pytest.mark.parametrize("name", ["VARIANT", "ARRAY", "OBJECT", "GEOGRAPHY", "VECTOR", "MAP", "DECFLOAT"])
def test_types_without_an_exact_one_are_named(name: str) -> None:
    assert column_of("x", Native(name=name), None) == name


@pytest.mark.parametrize(
    ("columns", "advice"),
    [
        ({"V": "VARIANT", "O": "OBJECT"}, "`source: {columns: {V: text, O: text}}`, or leave them out"),
        ({"V": "VARIANT", "G": "GEOGRAPHY"}, "`source: {columns: {V: text}, exclude: [G]}`, or cast them"),
        ({"G": "GEOGRAPHY"}, "Cast them in a `query:`, or leave them out"),
    ],
)
def test_a_document_is_refused_until_the_project_says_what_it_is(columns: dict[str, str], advice: str) -> None:
    natives = [
        ("ID", Native(name="FIXED", precision=10)),
        *((name, Native(name=word)) for name, word in columns.items()),
    ]
    found = described("S.T", natives, ColumnSelection(), column_of, as_text=DOCUMENTS)
    with pytest.raises(SchemaRefused, match="can store these columns exactly") as refused:
        found.schema()
    assert advice in refused.value.hint
    assert [column.name for column in found.columns] == ["ID"]
    assert refused.value.context["columns"] == tuple(columns)


@pytest.mark.parametrize("word", sorted(DOCUMENTS))
def test_what_is_advised_is_taken(word: str) -> None:
    stated = ColumnSelection(types={"V": "text"})
    schema = described("S.T", [("V", Native(name=word))], stated, column_of, as_text=DOCUMENTS).schema()
    assert [(column.name, column.type) for column in schema] == [("V", TEXT)]


@pytest.mark.parametrize(
    ("native", "override"),
    [
        (Native(name="FIXED", precision=12, scale=2), "bigint"),
        (Native(name="FIXED", precision=12, scale=2), "decimal(10,2)"),
        (Native(name="REAL"), "text"),
        (Native(name="GEOGRAPHY"), "text"),
        (Native(name="TIMESTAMP_NTZ", scale=9), "date"),
    ],
)
def test_types_in_which_values_could_change_are_refused(native: Native, override: str) -> None:
    with pytest.raises(SchemaRefused, match="cannot be read as"):
        column_of("x", native, override)


@pytest.mark.parametrize(
    ("native", "kind", "text"),
    [
        ("VARIANT", JSON, "to_json(x)"),
        ("TIMESTAMP_TZ(9)", TEXT, "to_char(x, 'YYYY-MM-DD HH24:MI:SS.FF9 TZH:TZM')"),
        ("TIME(9)", TEXT, "to_char(x, 'HH24:MI:SS.FF9')"),
        ("NUMBER(12,2)", TEXT, "to_varchar(x)"),
        ("VARCHAR", TEXT, "x"),
    ],
)
def test_what_is_read_as_text_is_as_snowflake_writes_it(native: str, kind, text: str) -> None:
    column = Column(name="x", type=kind, native=native)
    assert Snowflake().text("x", column) == text
