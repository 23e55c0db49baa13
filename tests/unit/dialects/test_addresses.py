"""What each dialect makes of the URL of a server: for its Python driver and for its JDBC driver."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from tidegate.core.ids import Connection
from tidegate.dialects.mariadb.address import address_of as mariadb
from tidegate.dialects.oracle import Oracle
from tidegate.dialects.oracle.address import address_of as oracle
from tidegate.dialects.postgresql.address import options_of as postgresql
from tidegate.dialects.snowflake.address import SESSION
from tidegate.dialects.snowflake.address import address_of as snowflake
from tidegate.dialects.sqlserver import SqlServer
from tidegate.dialects.sqlserver.address import address_of as sqlserver
from tidegate.dialects.sqlserver.session import SETTINGS as OF_SQLSERVER
from tidegate.dialects.teradata import Teradata
from tidegate.dialects.teradata.address import address_of as teradata
from tidegate.dialects.teradata.session import SETTINGS as OF_TERADATA
from tidegate.dialects.trino.address import address_of as trino


def of(url: str) -> Connection:
    return Connection(name="shop", url=url)


@pytest.mark.parametrize("written", ["p@ss", "p%40ss"])
def test_passwords_may_hold_an_at_sign(written: str) -> None:
    """SQLAlchemy's parser takes what follows the first one for the host, which errors show."""
    assert mariadb(of(f"mariadb://me:{written}@h/db")).password == "p@ss"
    found = trino(of(f"trino://me:{written}@[::1]:8443/cat/s%2Fx"))
    assert (found.password, found.host, found.schema) == ("p@ss", "::1", "s/x")
    assert found.jdbc().url == "jdbc:trino://[::1]:8443/cat/s%2Fx"


def test_postgresql_may_have_several_servers() -> None:
    found = postgresql(of("postgresql://me@a:1,[::1]:2,b/db"))
    assert (found["host"], found["port"]) == ("a,::1,b", "1,2,")


def test_mariadb() -> None:
    url = "mariadb://a%40b:p%3Aw@db.example:3307/my%2Fshop?sslmode=verify-full&sslrootcert=/ca.pem&connect_timeout=3"
    there = mariadb(of(url))
    assert "p:w" not in repr(there)
    arguments = there.arguments()
    assert (arguments["user"], arguments["password"], arguments["database"]) == ("a@b", "p:w", "my/shop")
    assert arguments["ssl"] == {"ca": "/ca.pem", "verify_mode": "required", "check_hostname": True}
    jdbc = there.jdbc("SET x = 1")
    assert jdbc.url == "jdbc:mysql://db.example:3307/my%2Fshop?permitMysqlScheme"
    assert (jdbc.properties["sslMode"], jdbc.properties["connectTimeout"]) == ("verify-full", "3000")
    assert [jdbc.properties[f"tcpKeep{each}"] for each in ("Idle", "Interval", "Count")] == ["60", "10", "6"]


@pytest.mark.parametrize(
    ("url", "port", "ssl", "properties"),
    [
        ("trino://me@h/cat", 8080, False, {}),
        ("trino://me@h:443/cat/s", 443, True, {"SSL": "true"}),
        ("trino://me:p%40ss@h/cat/s", 443, True, {"SSL": "true", "password": "p@ss"}),
        ("trino://me@h:8443/cat?ssl=true&verify=false", 8443, True, {"SSL": "true", "SSLVerification": "NONE"}),
        ("trino://me@h/cat?ssl=true&verify=/ca.pem", 443, True, {"SSL": "true", "SSLTrustStorePath": "/ca.pem"}),
        ("trino://me@[::1]:8080/cat?ssl=false", 8080, False, {}),
    ],
)
def test_trino(url: str, port: int, ssl: bool, properties: dict[str, str]) -> None:
    found = trino(of(url))
    assert (found.port, found.ssl, found.catalog) == (port, ssl, "cat")
    jdbc = found.jdbc()
    fixed = {"driver": "io.trino.jdbc.TrinoDriver", "user": "me", "source": "tidegate"}
    assert jdbc.properties == {**fixed, **properties}
    host = "[::1]" if "::1" in url else "h"
    assert jdbc.url == f"jdbc:trino://{host}:{port}/cat{'/s' if found.schema else ''}"
    assert "p@ss" not in f"{found}{jdbc.url}"


KEY = base64.b64encode(b"a key in DER").decode()
PEM = f"-----BEGIN PRIVATE KEY-----%0A{KEY}%0A-----END PRIVATE KEY-----%0A".replace("+", "%2B").replace(" ", "%20")


def found(rest: str):
    """The address of such a URL."""
    return snowflake(of(f"snowflake://{rest}"))


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
def test_accounts_of_snowflake(host: str, there: str, account: str) -> None:
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
def test_logins_of_snowflake(rest: str, python: dict[str, str], java: dict[str, str]) -> None:
    address = found(rest)
    assert address.arguments().items() >= python.items()
    assert address.jdbc().properties.items() >= java.items()
    assert not any(secret in repr(address) for secret in ("pw'", "t+t", "'tt'", KEY, "'pp'"))


def test_an_emulator_of_snowflake_on_this_machine_is_asked_without_tls() -> None:
    address = found("me:pw@127.0.0.1:8080/d")
    assert address.arguments().items() >= {"host": "127.0.0.1", "port": 8080, "protocol": "http"}.items()
    assert address.jdbc().url == "jdbc:snowflake://http://127.0.0.1:8080/"


def test_teradata_beyond_this_machine_is_verified() -> None:
    found = teradata(of("teradata://me:p%40ss@db.example/SHOP"))
    arguments = found.arguments()
    assert (arguments["sslmode"], arguments["https_port"], arguments["sslca"]) == (
        "VERIFY-FULL",
        "443",
        found.authorities,
    )
    assert "dbs_port" not in arguments
    jdbc = found.jdbc(OF_TERADATA)
    assert jdbc.url.startswith(
        "jdbc:teradata://db.example/DATABASE=SHOP,TMODE=ANSI,SSLMODE=VERIFY-FULL,HTTPS_PORT=443,"
    )
    assert f"SSLCA={found.authorities}" in jdbc.url
    assert jdbc.properties["password"] == "p@ss"
    assert "p@ss" not in f"{found}{jdbc.url}"
    plain = of("teradata://me@db.example/SHOP?sslmode=disable")
    assert teradata(plain).arguments()["dbs_port"] == "1025"
    assert "may read and change" in Teradata().in_the_clear(plain)
    assert teradata(of("teradata://me@127.0.0.1/SHOP")).arguments()["sslmode"] == "PREFER"


def test_sqlserver_beyond_this_machine_is_verified(tmp_path: Path) -> None:
    found = sqlserver(of("sqlserver://me:p%40ss@db.example/shop"))
    assert (found.port, found.mode, found.arguments()["encryption"]) == (1433, "verify-full", "require")
    assert "check certificate hostname = yes" in found.settings()
    assert f"ca file = {found.authorities}" in found.settings()
    jdbc = found.jdbc(OF_SQLSERVER)
    assert jdbc.url == "jdbc:sqlserver://"
    wanted = {"encrypt": "true", "trustServerCertificate": "false", "serverName": "db.example", "password": "p@ss"}
    assert wanted.items() <= jdbc.properties.items()
    assert "p@ss" not in f"{found}{jdbc.url}"
    own = sqlserver(of(f"sqlserver://me@127.0.0.1/shop?sslrootcert={tmp_path}/ca.pem"))
    assert (own.mode, own.authorities) == ("verify-full", f"{tmp_path}/ca.pem")


@pytest.mark.parametrize(
    ("mode", "encrypt", "trust", "driver"),
    [("disable", "false", "false", "off"), ("require", "true", "true", "require")],
)
def test_modes_of_sqlserver(mode: str, encrypt: str, trust: str, driver: str) -> None:
    connection = of(f"mssql://me@db.example/shop?sslmode={mode}")
    found = sqlserver(connection)
    properties = found.jdbc("").properties
    assert (properties["encrypt"], properties["trustServerCertificate"]) == (encrypt, trust)
    assert found.arguments()["encryption"] == driver
    assert "ca file" not in found.settings()
    assert (SqlServer().in_the_clear(connection) is not None) == (mode in ("disable", "require"))


def test_oracle_beyond_this_machine_is_verified() -> None:
    found = oracle(of("oracle://me:p%40ss@db.example/shop.example"))
    arguments = found.arguments()
    assert (found.port, arguments["protocol"], arguments["ssl_server_dn_match"]) == (2484, "tcps", True)
    assert arguments["ssl_context"].check_hostname
    jdbc = found.jdbc("BEGIN NULL; END;")
    assert jdbc.url == "jdbc:oracle:thin:@tcps://db.example:2484/shop.example"
    assert jdbc.properties["oracle.net.ssl_server_dn_match"] == "true"
    assert "p@ss" not in f"{found}{jdbc.url}"
    assert Oracle().in_the_clear(of("oracle://me@db.example/x")) is None
    plain = of("oracle://me@db.example/x?sslmode=disable")
    assert oracle(plain).jdbc("").url == "jdbc:oracle:thin:@tcp://db.example:1521/x"
    assert "ssl_context" not in oracle(plain).arguments()
    assert "may read and change" in Oracle().in_the_clear(plain)
