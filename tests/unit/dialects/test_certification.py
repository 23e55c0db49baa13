"""How databases that cannot be started here are certified: statements, values, and what the kit is told of them."""

from __future__ import annotations

from datetime import date, datetime

import pytest
import sqlglot

from support import simulated_oracle, simulated_sqlserver, simulated_teradata
from support.simulated import SimulatedServer
from tidegate.core.ids import Connection
from tidegate.core.server import Server
from tidegate.dialects.oracle import Oracle
from tidegate.dialects.sqlserver import SqlServer
from tidegate.dialects.sqlserver.types import column_of as of_sqlserver
from tidegate.dialects.teradata import Teradata
from tidegate.dialects.teradata.types import column_of as of_teradata
from tidegate.errors import ConfigError
from tidegate_scenarios.certification import Certification
from tidegate_scenarios.databases.oracle import OracleCertification
from tidegate_scenarios.databases.sqlserver import SqlServerCertification
from tidegate_scenarios.databases.teradata import TeradataCertification
from tidegate_scenarios.run import certification_of

KITS = [SqlServerCertification(), OracleCertification(), TeradataCertification()]


@pytest.mark.parametrize("kit", KITS, ids=lambda kit: kit.driver)
def test_samples_are_columns_with_two_values_at_least(kit: Certification) -> None:
    names = [sample.name for sample in kit.samples]
    assert len(set(names)) == len(names)
    assert all(len({repr(value) for _, value in sample.values}) > 1 for sample in kit.samples)
    assert kit.driver_version()


@pytest.mark.parametrize(
    ("kit", "dialect"),
    list(zip(KITS, (SqlServer(), Oracle(), Teradata()), strict=True)),
    ids=["sqlserver", "oracle", "teradata"],
)
def test_dialects_offer_them(kit: Certification, dialect) -> None:
    assert type(certification_of(dialect.kind)) is type(kit)
    table = dialect.relation("s", "t").sql
    statement = kit.insert(table, ["a", "b"], [["1", kit.string("it's")], ["2", "NULL"]])
    for each in sqlglot.parse(statement, read=dialect.sqlglot):
        assert isinstance(each, sqlglot.exp.Insert)
    for sample in kit.samples:
        for literal, _ in sample.values:
            if "XB" not in literal:  # bytes of Teradata, which the parser does not know
                sqlglot.parse_one(f"SELECT {literal} AS x", read=dialect.sqlglot)


@pytest.mark.parametrize(
    ("kit", "column_of"),
    [(SqlServerCertification(), of_sqlserver), (TeradataCertification(), of_teradata)],
    ids=["sqlserver", "teradata"],
)
def test_the_values_are_those_of_the_types(kit: Certification, column_of) -> None:
    """What is expected is written as the type of the lake has it."""
    for sample in kit.samples:
        word = sample.declaration.partition(" COLLATE")[0]
        column = column_of(sample.name, (word, True), sample.read_as or None)
        assert not isinstance(column, str), sample.declaration
        kinds = {"boolean": bool, "int": int, "bigint": int, "date": date, "string": str, "binary": bytes}
        wanted = kinds.get(column.type.spark, object)
        wanted = datetime if column.type.spark.startswith("timestamp") else wanted
        assert all(type(value) is wanted or wanted is object for _, value in sample.values), sample.name


def scratch(kit: Certification, url: str):
    return kit.open(Connection(name="scratch", url=url), None)


def test_a_schema_of_sql_server() -> None:
    server = simulated_sqlserver.server()
    server.on("SELECT schema_id", [(None,)])
    there = scratch(SqlServerCertification(server.connect), simulated_sqlserver.URL)
    assert there.contents() is None
    there.create()
    server.on("SELECT schema_id", [(7,)])
    server.on("FROM sys.objects", [("orders",)])
    assert there.contents() == ("orders",)
    there.begin()
    there.commit()
    other = there.connect_again()
    other.close()
    there.close()
    wanted = ["CREATE SCHEMA [tidegate_certify]", "BEGIN TRANSACTION", "COMMIT TRANSACTION"]
    assert [sql for sql in server.statements if sql in wanted] == wanted
    assert server.closed == 2


def test_a_schema_of_oracle_is_a_user() -> None:
    server = simulated_oracle.server()
    server.on("FROM all_users u", [(1,)])
    server.on("FROM all_objects o", [])
    there = scratch(OracleCertification(server.connect), simulated_oracle.URL)
    assert (there.schema, there.contents()) == ("LOADER", ())
    for refused in (there.create, there.remove):
        with pytest.raises(ConfigError, match="user"):
            refused()
    there.begin()
    assert not there.session.autocommit
    there.commit()
    assert there.session.autocommit
    assert server.statements[-1] == "COMMIT"
    statement = OracleCertification().insert("t", ["a"], [["1"], ["2"]])
    assert statement == "INSERT INTO t (a) SELECT 1 FROM dual UNION ALL SELECT 2 FROM dual"


def test_a_database_of_teradata() -> None:
    server: SimulatedServer = simulated_teradata.server()
    server.on("FROM DBC.DatabasesV", [(1,)])
    server.on("FROM DBC.TablesV", [("orders   ",)])
    kit = TeradataCertification(server.connect)
    there = scratch(kit, simulated_teradata.URL)
    assert there.contents() == ("orders",)
    there.create()
    assert server.statements[-1] == 'CREATE DATABASE "tidegate_certify" FROM "SHOP" AS PERM = 200000000'
    assert not kit.transactions
    assert kit.create_table('"t"', {"id": "bigint"}) == 'CREATE MULTISET TABLE "t" (id bigint NOT NULL PRIMARY KEY)'


@pytest.mark.parametrize(
    ("version", "numbers", "major"),
    [("17.20.03.23   ", 2, "17.20"), ("16.0.4135.4", 1, "16"), ("10.11.19-MariaDB-log", 2, "10.11"), ("476", 1, "476")],
)
def test_a_release_series_is_the_first_numbers_of_a_version(version: str, numbers: int, major: str) -> None:
    found = Server.of("any", version, numbers=numbers)
    assert (found.version, found.major) == (version.strip(), major)


@pytest.mark.parametrize(
    ("dialect", "version", "major"),
    [(SqlServer(), "16.0.4135.4", "16"), (Oracle(), "19.0.0.0.0", "19"), (Teradata(), "17.20.03.23   ", "17.20")],
    ids=lambda each: getattr(each, "kind", None),
)
def test_a_server_says_what_it_is(dialect, version: str, major: str) -> None:
    asked = []

    def ask(sql: str) -> list[tuple[str]]:
        asked.append(sqlglot.parse_one(sql, read=dialect.sqlglot))
        return [(version,)]

    assert dialect.server(ask).major == major
    assert len(asked) == 1
