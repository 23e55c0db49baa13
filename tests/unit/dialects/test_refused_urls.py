"""What is wrong with a URL alone: every dialect says so without asking a server, and `check` reports it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tidegate import plugins
from tidegate.api import Project
from tidegate.core.ids import Connection
from tidegate.dialects.postgresql.address import options_of
from tidegate.dialects.postgresql.plain_urls import plain
from tidegate.errors import ConfigError, UnknownPlugin
from tidegate.sources.database.source import dialect_of

WRONG = [
    ("oracle://me:s3cr3t@h/x?sslmode=require", "sslmode must be one of disable, verify-full"),
    ("oracle://me:s3cr3t@h/?service_name=X", "option 1 of the URL is not known; known options: sslmode"),
    ("oracle+cx_oracle://me:s3cr3t@h/?service_name=X", "option 1 of the URL is not known"),
    ("sqlserver://me:s3cr3t@h/x?encrypt=true", "option 1 of the URL is not known"),
    ("mssql://me:s3cr3t@h/x?sslmode=verify-ca", "sslmode must be one of disable, require, verify-full"),
    ("mssql+pyodbc://me:s3cr3t@h/x?driver=ODBC", "option 1 of the URL is not known"),
    ("teradata://me:s3cr3t@h", "no user or no database"),
    ("teradata://me:s3cr3t@h/x?logmech=LDAP", "option 1 of the URL is not known"),
    ("trino://me@h/x?ssl=", "ssl is '', and must be true or false"),
    ("trino://me@h/x?sslmode=require", "did you mean 'ssl'"),
    ("trino://me:s3cr3t@h/x?ssl=false", "accepts a password only over TLS"),
    ("snowflake://me:s3cr3t@acme/x?query_tag=a", "option 1 of the URL is not known"),
    ("snowflake://me@acme/x", "names no password, key or token"),
    ("snowflake://s3cr3t:pw@acme", "no user or no database"),
    ("snowflake://me:s3cr3t@acme/d/s/t", "no user or no database"),
    ("snowflake://me:s3cr3t@acme:8080/d", "over TLS at its own port"),
    ("snowflake://me:s3cr3t@127.0.0.1/d", "has a port"),
    ("snowflake://me:@acme/d", "'password' has no value"),
    ("snowflake://me@acme/d?token=", "'token' has no value"),
    ("snowflake://me:s3cr3t@acme/d?role=", "'role' has no value"),
    ("snowflake://me:s3cr3t@acme/d?token=s3cr3t", "names password and token"),
    ("snowflake://me:s3cr3t@acme/d?authenticator=externalbrowser", "authenticator must be snowflake"),
    ("snowflake://me@acme/d?authenticator=snowflake&token=s3cr3t", "programmatic_access_token or oauth"),
    ("snowflake://me@acme/d?token=t&private_key_file_pwd=s3cr3t", "belongs to private_key_file"),
    ("snowflake://me@acme/d?private_key=s3cr3t!", "no unencrypted key"),
    ("snowflake://me:s3cr3t@acme/d?warehous=x", "option 1 of the URL is not known; did you mean 'warehouse'"),
    ("mariadb://me:s3cr3t@h/x?sslmode=prefer", "sslmode must be one of"),
    ("postgresql://me:s3cr3t@h/x?connect_timeout=5&foo=1", "option 2 of the URL is not known; known options: service"),
    ("postgresql://me:s3cr3t@h/x?sslmod=require", "did you mean 'sslmode'"),
    ("postgresql://me:s3cr3t@h/x?sslmode=strict", "sslmode must be one of disable, allow"),
    ("postgresql://me:s3cr3t@h:5432,i:x/x", "the port in the URL is not a number"),
    ("postgresql://me:s3cr3t@h/x?sslmode", "the URL cannot be parsed"),
    *((f"sqlite:{rest}", "names no file") for rest in ("//", "///", "///:memory:", "//shop.db")),
    ("duckdb:///:memory:", "names no file"),
]
# Each says too little, too much, or what cannot be parsed.
FLAWED = {
    ("oracle", "sqlserver", "teradata"): [
        *("h/shop", "me@h", "me@h/a/b", "me:s3cr3t@h:x/shop", "me:s3cr3t@h/shop?connect_timeout=soon"),
        "me:s3cr3t@h/shop?sslmode=prefer",
    ],
    ("sqlserver", "teradata"): ["me:s3cr3t@h/shop?sslmode=require&sslrootcert=/ca.pem"],
    ("oracle",): ["me:s3cr3t@h/shop?sslmode=disable&truststore=/t.jks"],
    ("sqlserver",): ["me:s3cr3t@h/shop?encrypt=no", "me:s3cr3t@h/shop?sslrootcert=a%0Adump%20file=b"],
    ("teradata",): ["me:s3cr3t@h/shop,TMODE=TERA", "me:s3cr3t@h/shop?sslrootcert=/a,LOG=DEBUG"],
    ("mariadb", "trino"): [*("me:s3cr3t@h:port/db", "me:s3cr3t@[h/db", "me:s3c/r3t@h/db", "me:s3cr3t@h/db#x", "/db")],
    ("postgresql",): ["me:s3cr3t@h:port/db", "me:s3cr3t@h:1,i:x/db", "me:s3c[r3t@h/db", "me:s3c]r3t@h/db"],
    ("trino",): [
        *("h/cat", "me@h", "me@h/a/b/c", "/cat", "me:s3cr3t@h:x/cat", "me:s3cr3t@h/cat?tls=true"),
        "me:s3cr3t@h/cat?ssl=perhaps",
    ],
    ("snowflake",): ["acme/d"],
    ("mariadb",): [
        *("host", "/database", "me:s3cr3t@host/database?charset=latin1", "host/database?sslmode=maybe"),
        "host/database?connect_timeout=soon",
        # An option without a value could be the one that asks for TLS, made of an empty variable.
        *(f"me:s3cr3t@h/db?{options}" for options in ("sslmode=", "sslmode", "ssl_mode=require", "=require")),
    ],
}
RIGHT = [
    "oracle+cx_oracle://me:s3cr3t@h/x",
    "mssql+pyodbc://me:s3cr3t@h/x",
    "teradata://me:s3cr3t@h/x",
    "trino://me:s3cr3t@h/x",
    "snowflake://me:s3cr3t@acme/x",
    "mariadb://me:s3cr3t@h/x",
    "mysql+pymysql://me:s3cr3t@h/x",
    "postgresql+psycopg2://me:s3cr3t@h/x?sslmode=require&options=-c%20search_path%3Da",
    "postgresql:///x?host=/run/postgresql",
    "postgresql://me@a:1,[::1]:2,b/x?target_session_attrs=any&ssl=true",
    "sqlite:///x.db",
    "duckdb:///x.db",
]


def refuse(url: str) -> None:
    """As `check` asks."""
    connection = Connection(name="c", url=url)
    plugins.dialect_of(connection.scheme)().refuse_url(connection)


@pytest.mark.parametrize(
    ("url", "words"),
    [*WRONG, *((f"{kind}://{rest}", "") for kinds, rests in FLAWED.items() for kind in kinds for rest in rests)],
)
def test_a_wrong_url_is_refused_and_its_password_not_shown(url: str, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        refuse(url)
    assert words in refused.value.message
    assert "s3c" not in f"{refused.value}{refused.value.hint}"
    assert refused.value.__cause__ is None


@pytest.mark.parametrize("url", RIGHT)
def test_a_right_url_is_not(url: str) -> None:
    refuse(url)


def test_every_dialect_that_can_be_connected_to_refuses_some() -> None:
    connecting = {kind for kind in plugins.names("dialects") if plugins.load("dialects", kind).connects}
    assert {plugins.dialect_of(Connection(name="c", url=url).scheme).kind for url, _ in WRONG} == connecting


def test_check_reports_it_for_streams_and_hooks() -> None:
    hook = {"kind": "sql", "connection": "lake_db", "sql": "CALL refresh()"}
    stream = {"target": "lake.a.b", "key": ["id"], "strategy": "full", "write": "replace", "after_publish": [hook]}
    connections = {"shop": "oracle://me:s3cr3t@h/x?sslmode=require", "lake_db": "trino://me:s3cr3t@h/x?ssl=false"}
    streams = {"orders": {"source": {"connection": "shop", "table": "A.B"}, **stream}}
    with Project.from_dict({"connections": connections, "streams": streams}) as project:
        (checked,) = project.check()
    assert [error.code for error in checked.errors] == ["config", "config"]
    assert ["sslmode must be" in checked.problems[0], "only over TLS" in checked.problems[1]] == [True, True]


@pytest.mark.parametrize(
    "rest",
    [
        "me:p%40s@h:5432/d?sslmode=require&options=-c%20a%3Db",
        "me:p+s;x@h",
        "h/a/b",
        "h/%41%",
        "me@h?sslmode=",
        "/d",
        "me:a:b@h/d",
        "h/d?options=%zz",
        "h/d?port=x",
        "h/d?host=a=b",
        "h/d?user=%00",
        "me@h:/d",
        "h/d?&",
        "h/d?sslmode=require&&options=a",
        "h/d?connect_timeout",
    ],
)
def test_what_is_plainly_right_is_right_for_libpq(rest: str) -> None:
    """Other URLs may be right, too: for those libpq is asked."""
    if plain(f"postgresql://{rest}"):
        options_of(Connection(name="c", url=f"postgresql://{rest}"))


def test_an_ordinary_url_loads_no_driver() -> None:
    code = (
        "import sys; from tidegate import plugins; from tidegate.core.ids import Connection\n"
        "plugins.dialect_of('postgresql')().refuse_url(Connection(name='c', url='postgresql://me:p@h:1/d?sslmode=require'))\n"
        "print('psycopg' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "False"


def test_a_stream_that_leaves_columns_out_is_looked_at_like_any_other() -> None:
    stream = {"target": "lake.a.b", "key": ["id"], "strategy": "full", "write": "replace"}
    contract = {"add_column": "rescue"}
    streams = {"orders": {"source": {"connection": "shop", "table": "a.b"}, "contract": contract, **stream}}
    connections = {"shop": "mariadb://me:s3cr3t@h/x?sslmode=prefer"}
    with Project.from_dict({"connections": connections, "streams": streams}) as project:
        (checked,) = project.check()
    assert "sslmode must be one of" in "".join(checked.problems)


def test_an_unknown_scheme_is_told_those_that_rows_are_read_from() -> None:
    with pytest.raises(UnknownPlugin, match="db2:// is of no known database") as refused:
        dialect_of(Connection(name="c", url="db2://me:s3cr3t@h/x"))
    assert "postgresql://" in refused.value.message
    assert "spark" not in refused.value.message
