"""`tidegate export snowflake`: the statements for every kind of lake, as they were reviewed, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import sqlglot

from tidegate.core.ids import Target
from tidegate.core.table_facts import TableAddress
from tidegate.engine.export.snowflake import Table, snowflake
from tidegate.errors import ConfigError
from tidegate.formats.delta import Delta
from tidegate.formats.iceberg import Iceberg

GOLDEN = Path(__file__).parents[2] / "golden" / "snowflake"
SECRET = "s3cr3t"


def table(stream: str = "orders", name: str = "orders", **address) -> Table:
    """A table of a lake with that address."""
    target = Target(lake="lake", namespace=("shop",), table=name)
    return Table(stream=stream, target=target, address=TableAddress(**{"format": "iceberg", **address}))


def rest(**options) -> TableAddress:
    """The address of a table in a REST catalog, as the format gives it."""
    warehouse = options.pop("warehouse", None)
    lake = Iceberg(name="lake", warehouse=warehouse, catalog={"type": "rest", **options})
    return lake.address(Target(lake="lake", namespace=("shop",), table="orders"))


def of(address: TableAddress) -> Table:
    """A stream whose table has that address."""
    return Table(stream="orders", target=Target(lake="lake", namespace=("shop",), table="orders"), address=address)


POINTER = "s3://bucket/lake/shop/orders/metadata/00007-a.metadata.json"
SCRIPTS = {
    "rest_oauth": lambda: [
        of(
            rest(
                uri="https://catalog.example/api/",
                warehouse="s3://bucket/lake",
                credential=f"id:{SECRET}",
                scope="catalog tables",
                **{"oauth2-server-uri": "https://login.example/token"},
            )
        )
    ],
    "rest_bearer": lambda: [of(rest(uri=f"https://me:{SECRET}@catalog.example", warehouse="main", token=SECRET))],
    "rest_sigv4": lambda: [
        of(
            rest(
                uri="https://glue.eu-central-1.amazonaws.com/iceberg",
                warehouse="123456789012",
                **{"rest.sigv4-enabled": "true", "rest.signing-region": "eu-central-1"},
            )
        )
    ],
    "open_catalog": lambda: [
        of(
            rest(
                uri="https://acme-lake.snowflakecomputing.com/polaris/api/catalog",
                warehouse="sales",
                credential=f"id:{SECRET}",
                scope="PRINCIPAL_ROLE:LOADER",
            )
        )
    ],
    "glue": lambda: [table(catalog="glue", warehouse="s3://bucket/lake", options={"client.region": "eu-central-1"})],
    "object_store": lambda: [
        table(catalog="postgresql", warehouse="s3://bucket/lake", path=POINTER),
        table("odd", 'it\'s "odd"', catalog="postgresql", warehouse="s3://bucket/lake", path=POINTER + "'"),
        table("local", catalog="sqlite", warehouse="file:///data/warehouse", path="file:///data/warehouse/x"),
    ],
    "s3_compatible": lambda: [
        table(
            catalog="sqlite",
            warehouse="s3://bucket",
            path="s3://bucket/shop/orders/metadata/1.metadata.json",
            options={"s3.endpoint": "https://store.example"},
        )
    ],
    "delta_azure": lambda: [
        table(
            format="delta",
            catalog="",
            warehouse="abfss://lake@account.dfs.core.windows.net/tables",
            path="abfss://lake@account.dfs.core.windows.net/tables/shop/orders",
        )
    ],
    "delta_google": lambda: [
        table(format="delta", catalog="", warehouse="gs://bucket/lake", path="gs://bucket/lake/shop/orders")
    ],
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_script_is_the_one_that_was_reviewed(name: str) -> None:
    """Set TIDEGATE_GOLDEN=write to rewrite the files, then review the difference."""
    file, found = GOLDEN / f"{name}.sql", snowflake(SCRIPTS[name]()).text + "\n"
    if os.environ.get("TIDEGATE_GOLDEN") == "write":
        file.write_text(found)
    assert found == file.read_text()
    assert SECRET not in found


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.filterwarnings("ignore")
def test_a_parser_of_snowflake_takes_every_statement_apart(name: str) -> None:
    script = snowflake(SCRIPTS[name]())
    statements = [each for each in sqlglot.parse(script.text, read="snowflake") if each is not None]
    statements = [each for each in statements if not isinstance(each, sqlglot.exp.Semicolon)]  # comments at the end
    words = [each.sql(dialect="snowflake", comments=False).split(maxsplit=1)[0] for each in statements]
    assert set(words) == {"CREATE", "ALTER"}
    assert len(statements) == script.text.count(";\n") + script.text.endswith(";")


def test_tables_of_one_lake_share_volume_and_integration() -> None:
    tables = [
        table(name, name, format="delta", catalog="", warehouse="s3://b/lake", path=f"s3://b/lake/shop/{name}")
        for name in ("orders", "visits")
    ]
    found = snowflake(tables, "raw")
    assert found.text.count("CREATE EXTERNAL VOLUME") == found.text.count("CREATE CATALOG INTEGRATION") == 1
    assert found.text.count('CREATE DATABASE IF NOT EXISTS "RAW";') == 1
    assert found.refresh == (
        'ALTER ICEBERG TABLE "RAW"."SHOP"."ORDERS" REFRESH;',
        'ALTER ICEBERG TABLE "RAW"."SHOP"."VISITS" REFRESH;',
    )
    assert found.tables == 2


def test_the_name_of_a_table_is_no_statement() -> None:
    odd = "a\nDROP DATABASE lake;"
    place = {"format": "delta", "catalog": "", "warehouse": "s3://b/lake"}
    seen = table(odd, "orders", **place, path="s3://b/lake/shop/orders")
    text = snowflake([seen], unknown=[f"{odd} has no address"]).text
    lines = [line for line in text.splitlines() if "DROP" in line]
    assert len(lines) == 2
    assert all(line.startswith("--") for line in lines)


def test_two_tables_of_one_name_are_refused() -> None:
    """`IF NOT EXISTS` would keep the first, and show its rows for those of the second."""
    warehouse = {"format": "delta", "catalog": "", "warehouse": "s3://b"}
    one, other = (table(f"s{name}", name, path=f"s3://b/shop/{name}", **warehouse) for name in ("orders", "ORDERS"))
    with pytest.raises(ConfigError, match='sorders and sORDERS would both be "LAKE"'):
        snowflake([one, other])


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ({"catalog": "sqlite", "warehouse": "file:///data"}, "a folder of this machine"),
        ({"catalog": "hive", "warehouse": None}, "its warehouse is not known"),
        ({"catalog": "postgresql", "warehouse": "hdfs://n/w"}, "hdfs://, and Snowflake reads"),
        ({"catalog": "postgresql", "warehouse": "s3://b/lake"}, "does not exist yet"),
        ({"catalog": "postgresql", "warehouse": "s3://b/lake", "path": "s3://b/other/x"}, "does not lie below"),
        ({"catalog": "rest", "warehouse": "w", "options": {"uri": "http://localhost:8181"}}, "cannot reach"),
        (
            {"catalog": "rest", "warehouse": "file:///w", "options": {"uri": "https://c.example"}},
            "folder of this machine",
        ),
        (
            {"catalog": "sqlite", "warehouse": "s3://b/l", "options": {"s3.endpoint": "http://127.0.0.1:7070"}},
            "object store is on this machine",
        ),
    ],
)
def test_what_snowflake_cannot_read_is_refused_with_the_reason(address: dict, reason: str) -> None:
    with pytest.raises(ConfigError, match="can read none of these tables") as refused:
        snowflake([table(**address)])
    assert reason in str(refused.value)


def test_a_lake_of_this_machine_has_an_address_without_secrets(tmp_path: Path) -> None:
    target = Target(lake="lake", namespace=("shop",), table="orders")
    catalog = {"type": "sqlite", "s3.secret-access-key": SECRET, "s3.endpoint": "https://store.example"}
    address = Iceberg(name="lake", warehouse="s3://bucket", catalog=catalog, folder=tmp_path).address(target)
    assert SECRET not in repr(address)
    assert (address.path, address.logins) == (None, {"s3.secret-access-key"})
    folder = Delta(name="lake", folder=tmp_path).address(target)
    assert folder.path == f"file://{tmp_path}/warehouse/shop/orders"
