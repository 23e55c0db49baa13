"""What dialects make of a connection's URL: the scheme, a file, a server; and that no error shows a password."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tidegate import plugins
from tidegate.cli.proposal import login
from tidegate.config.paths import absolute_connection
from tidegate.core.ids import Connection
from tidegate.dialects.mariadb.address import address_of as mariadb
from tidegate.dialects.oracle.address import address_of as oracle
from tidegate.dialects.postgresql.address import options_of as postgresql
from tidegate.dialects.shared.database_file import file_of, opened_file
from tidegate.dialects.sqlserver.address import address_of as sqlserver
from tidegate.dialects.teradata.address import address_of as teradata
from tidegate.dialects.trino.address import address_of as trino
from tidegate.errors import ConfigError, UnknownPlugin


@pytest.mark.parametrize(
    ("scheme", "kind"),
    [("mysql", "mariadb"), ("postgres", "postgresql"), ("sqlite3", "sqlite"), ("trino", "trino"), ("spark", "spark")],
)
def test_a_scheme_names_a_dialect(scheme: str, kind: str) -> None:
    assert plugins.dialect_of(scheme).kind == kind


def test_a_scheme_that_nobody_lists() -> None:
    with pytest.raises(UnknownPlugin, match="'informix' is not a known dialect"):
        plugins.dialect_of("informix")


@pytest.mark.parametrize("written", ["p@ss", "p%40ss"])
def test_passwords_may_hold_an_at_sign(written: str) -> None:
    """SQLAlchemy's parser takes what follows the first one for the host, which errors show."""
    assert mariadb(Connection(name="c", url=f"mariadb://me:{written}@h/db")).password == "p@ss"
    found = trino(Connection(name="c", url=f"trino://me:{written}@[::1]:8443/cat/s%2Fx"))
    assert (found.password, found.host, found.schema) == ("p@ss", "::1", "s/x")
    assert found.jdbc().url == "jdbc:trino://[::1]:8443/cat/s%2Fx"


@pytest.mark.parametrize("options", ["sslmode=", "sslmode", "ssl_mode=require", "=require"])
def test_an_option_without_a_value_is_not_passed_over(options: str) -> None:
    """It could be the one that asks for TLS, made of an empty variable."""
    with pytest.raises(ConfigError):
        mariadb(Connection(name="c", url=f"mariadb://me:s3cr3t@h/db?{options}"))


@pytest.mark.parametrize(
    ("scheme", "rest"),
    [
        *itertools.product(
            ["mariadb", "trino"],
            ["me:s3cr3t@h:port/db", "me:s3cr3t@[h/db", "me:s3c/r3t@h/db", "me:s3cr3t@h/db#x", "/db"],
        ),
        *itertools.product(
            ["postgresql"], ["me:s3cr3t@h:port/db", "me:s3cr3t@h:1,i:x/db", "me:s3c[r3t@h/db", "me:s3c]r3t@h/db"]
        ),
    ],
)
def test_what_cannot_be_parsed_is_not_shown(scheme: str, rest: str) -> None:
    read = {"mariadb": mariadb, "trino": trino, "postgresql": postgresql}[scheme]
    with pytest.raises(ConfigError) as refused:
        read(Connection(name="c", url=f"{scheme}://{rest}"))
    assert "s3c" not in f"{refused.value}{refused.value.hint}"
    assert refused.value.__cause__ is None


def test_postgresql_may_have_several_servers() -> None:
    found = postgresql(Connection(name="c", url="postgresql://me@a:1,[::1]:2,b/db"))
    assert (found["host"], found["port"]) == ("a,::1,b", "1,2,")


@pytest.mark.parametrize(
    "url",
    [
        "oracle://h/shop",
        "oracle://me@h",
        "oracle://me@h/a/b",
        "oracle://me:secret@h:x/shop",
        "oracle://me:secret@h/shop?sslmode=require",
        "oracle://me:secret@h/shop?sslmode=disable&truststore=/t.jks",
        "oracle://me:secret@h/shop?connect_timeout=soon",
        "sqlserver://h/shop",
        "sqlserver://me@h",
        "sqlserver://me@h/a/b",
        "sqlserver://me:secret@h:x/shop",
        "sqlserver://me:secret@h/shop?sslmode=prefer",
        "sqlserver://me:secret@h/shop?sslmode=require&sslrootcert=/ca.pem",
        "sqlserver://me:secret@h/shop?encrypt=no",
        "sqlserver://me:secret@h/shop?connect_timeout=soon",
        "sqlserver://me:secret@h/shop?sslrootcert=a%0Adump%20file=b",
        "teradata://h/shop",
        "teradata://me@h",
        "teradata://me@h/a/b",
        "teradata://me:secret@h:x/shop",
        "teradata://me:secret@h/shop?sslmode=prefer",
        "teradata://me:secret@h/shop?sslmode=require&sslrootcert=/ca.pem",
        "teradata://me:secret@h/shop?connect_timeout=soon",
        "teradata://me:secret@h/shop,TMODE=TERA",
        "teradata://me:secret@h/shop?sslrootcert=/a,LOG=DEBUG",
    ],
)
def test_url_of_a_server_that_says_too_little_or_too_much(url: str) -> None:
    read = {"oracle": oracle, "sqlserver": sqlserver, "teradata": teradata}[url.partition(":")[0]]
    with pytest.raises(ConfigError) as refused:
        read(Connection(name="c", url=url))
    assert "secret" not in f"{refused.value}{refused.value.hint}"


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite:shop.db", "sqlite://shop.db"])
def test_urls_that_name_no_file(url: str) -> None:
    assert file_of(url) is None
    with pytest.raises(ConfigError, match="'c' names no file"):
        opened_file(Connection(name="c", url=url), "sqlite")


@pytest.mark.parametrize("scheme", ["sqlite", "sqlite3", "sqlite+pysqlite", "duckdb"])
@pytest.mark.parametrize("written", ["shop.db", "my%20shop.db", "../shop.db?a=b", "//data/shop.db"])
def test_a_file_lies_where_the_project_says(scheme: str, written: str, tmp_path: Path) -> None:
    folder = tmp_path / "100%25 of it?"
    found = absolute_connection(Connection(name="shop", url=f"{scheme}:///{written.removeprefix('/')}"), folder)
    wanted = {
        "shop.db": folder / "shop.db",
        "my%20shop.db": folder / "my shop.db",
        "../shop.db?a=b": tmp_path / "shop.db",
        "//data/shop.db": Path("/data/shop.db"),
    }
    assert opened_file(found, scheme) == wanted[written]


@pytest.mark.parametrize("scheme", ["sqlite", "duckdb"])
def test_init_writes_a_file_from_the_projects_folder_on(scheme: str, tmp_path: Path) -> None:
    found = login(f"{scheme}:///{tmp_path}/data/shop.db", tmp_path)
    assert (found.masked, found.name, found.variable) == (f"{scheme}:///data/shop.db", "shop", None)
    assert file_of(found.url) == tmp_path / "data" / "shop.db"


@pytest.mark.parametrize(
    ("rest", "masked", "variable"),
    [
        ("me:pw@acme/SHOP?warehouse=W", "me:${SHOP_PASSWORD}@acme/SHOP?warehouse=W", "SHOP_PASSWORD"),
        ("me@acme/SHOP?token=s3cr3t&role=R", "me@acme/SHOP?token=${SHOP_TOKEN}&role=R", "SHOP_TOKEN"),
        ("me@acme/SHOP?private_key=s3cr3t", "me@acme/SHOP?private_key=${SHOP_PRIVATE_KEY}", "SHOP_PRIVATE_KEY"),
        (
            "me@acme/SHOP?private_key_file=/k&private_key_file_pwd=s3cr3t",
            "me@acme/SHOP?private_key_file=/k&private_key_file_pwd=${SHOP_PRIVATE_KEY_FILE_PWD}",
            "SHOP_PRIVATE_KEY_FILE_PWD",
        ),
        ("me@acme/SHOP?private_key_file=/k", "me@acme/SHOP?private_key_file=/k", None),
    ],
)
def test_init_writes_no_secret_of_an_option(rest: str, masked: str, variable: str | None, tmp_path: Path) -> None:
    found = login(f"snowflake://{rest}", tmp_path)
    assert (found.masked, found.variable) == (f"snowflake://{masked}", variable)


def test_init_takes_no_url_with_two_secrets(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="more than one secret") as refused:
        login("snowflake://me:s3cr3t@acme/SHOP?token=s3cr3t", tmp_path)
    assert "s3cr3t" not in f"{refused.value}{refused.value.hint}"
