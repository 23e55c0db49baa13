"""References in the options of a connection's URL: what a dialect gets, and that no error shows part of a secret."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from tidegate.config import from_dict
from tidegate.core.ids import Connection
from tidegate.dialects.mariadb.address import address_of as mariadb
from tidegate.dialects.oracle.address import address_of as oracle
from tidegate.dialects.postgresql.address import options_of as postgresql
from tidegate.dialects.snowflake.address import address_of as snowflake
from tidegate.dialects.sqlserver.address import address_of as sqlserver
from tidegate.dialects.teradata.address import address_of as teradata
from tidegate.dialects.trino.address import address_of as trino
from tidegate.errors import ConfigError

ODD = "Correct+Horse&Battery#Staple%2B Clip=Nine/@"
KEY = base64.b64encode(bytes(range(256))).decode()
PEM = f"-----BEGIN PRIVATE KEY-----\n{KEY[:64]}\n{KEY[64:]}\n-----END PRIVATE KEY-----\n"


def opened(url: str, folder: Path, secret: str) -> Connection:
    """The connection of a project with that URL, where the variable SECRET has this value."""
    streams = {
        "s": {"source": {"connection": "c", "table": "t"}, "target": "lake.a.b", "strategy": "full", "write": "replace"}
    }
    return from_dict({"connections": {"c": url}, "streams": streams}, folder, environ={"SECRET": secret}).connection(
        "c"
    )


@pytest.mark.parametrize("key", [KEY, PEM, PEM.replace("\n", "\r\n")])
def test_a_key_in_a_variable_reaches_snowflake_whole(key: str, tmp_path: Path) -> None:
    found = opened("snowflake://me@acme/D?private_key=${SECRET}&role=R", tmp_path, key)
    assert snowflake(found).secrets == {"private_key": KEY}
    assert snowflake(found).role == "R"


@pytest.mark.parametrize(
    ("options", "name"),
    [("private_key_file=/k.p8&private_key_file_pwd=${SECRET}", "private_key_file_pwd"), ("token=${SECRET}", "token")],
)
def test_any_phrase_or_token_reaches_snowflake_whole(options: str, name: str, tmp_path: Path) -> None:
    assert snowflake(opened(f"snowflake://me@acme/D?{options}", tmp_path, ODD)).secrets[name] == ODD


@pytest.mark.parametrize("name", ["password", "sslpassword"])
def test_any_password_in_an_option_reaches_libpq_whole(name: str, tmp_path: Path) -> None:
    found = opened(f"postgresql://me@h/d?{name}=${{SECRET}}&connect_timeout=5", tmp_path, ODD)
    assert postgresql(found).items() >= {name: ODD, "connect_timeout": "5"}.items()


@pytest.mark.parametrize(
    ("parser", "url"),
    [
        (snowflake, "snowflake://me@acme/D?token={}"),
        (snowflake, "snowflake://me@acme/D?private_key_file=/k&private_key_file_pwd={}"),
        (postgresql, "postgresql://me@h/d?sslpassword={}"),
        (mariadb, "mariadb://me@h/d?password={}"),
        (oracle, "oracle://me@h/d?password={}"),
        (sqlserver, "sqlserver://me@h/d?password={}"),
        (teradata, "teradata://me@h/d?password={}"),
        (trino, "trino://me@h/d?password={}"),
    ],
)
@pytest.mark.parametrize("secret", ["Correct&HorseBattery", "Correct&HorseBattery=Staple", "Correct&horse"])
def test_no_error_shows_a_part_of_a_secret_that_nobody_encoded(parser, url: str, secret: str) -> None:  # type: ignore[no-untyped-def]
    """As it arrives by a variable that holds a whole URL."""
    with pytest.raises(ConfigError) as refused:
        parser(Connection(name="c", url=url.format(secret)))
    shown = f"{refused.value}{refused.value.hint}".lower()
    assert not any(part in shown for part in ("correct", "horse", "staple"))
    assert refused.value.__cause__ is None
