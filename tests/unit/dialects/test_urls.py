"""What dialects make of a connection's URL: the scheme, a file, a server; and that no error shows a password."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate import plugins
from tidegate.cli.proposal import login
from tidegate.config.paths import absolute_connection
from tidegate.core.ids import Connection
from tidegate.dialects.shared.database_file import file_of, opened_file
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
