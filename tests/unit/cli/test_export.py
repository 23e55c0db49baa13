"""`tidegate export snowflake`: a script without secrets, and lakes that Snowflake cannot read."""

from contextlib import closing

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from support.workspace import Workspace
from tidegate.core.ids import Target
from tidegate.formats.iceberg import Iceberg

STREAM = {"source": {"connection": "shop", "table": "orders"}, "strategy": "full", "write": "replace"}
LAKES = {
    "open": {
        "format": "iceberg",
        "warehouse": "sales",
        "catalog": {"type": "rest", "uri": "https://catalog.example", "credential": "id:${CREDENTIAL}"},
    },
    "delta": {"format": "delta", "warehouse": "s3://bucket/lake"},
    "here": {"format": "iceberg"},
}


@pytest.fixture(autouse=True)
def project(folder, monkeypatch):
    monkeypatch.setenv("CREDENTIAL", "hunter2-of-the-catalog")
    streams = {name: {**STREAM, "target": f"{name}.shop.orders"} for name in LAKES}
    Workspace(folder=folder).write(streams, connections={"shop": "sqlite:///shop.db"}, lakes=LAKES)


def test_the_script_holds_no_secret_and_says_what_is_left_out(tidegate, folder):
    done = tidegate("export", "snowflake", "--output", "snowflake.sql")
    assert (done.exit_code, "2 tables" in done.err) == (0, True), done.err
    text = (folder / "snowflake.sql").read_text(encoding="utf-8")
    assert "hunter2" not in text
    assert "OAUTH_CLIENT_SECRET = '<client secret>'" in text
    assert "BASE_LOCATION = 'shop/orders'" in text
    assert "-- Left out: here: its warehouse is a folder of this machine" in text
    told = tidegate("export", "snowflake", "--json").document
    assert (told["tables"], told["script"]) == (2, text.rstrip("\n"))
    assert 'ALTER ICEBERG TABLE "DELTA"."SHOP"."ORDERS" REFRESH;' in told["refresh"]


def test_a_lake_of_this_machine_is_refused_with_the_reason(tidegate):
    done = tidegate("export", "snowflake", "here")
    assert (done.exit_code, "a folder of this machine, which Snowflake cannot read" in done.err) == (2, True), done.err


def test_a_table_in_a_catalog_of_its_own_is_found_by_its_newest_metadata(folder):
    lake, target = Iceberg(name="lake", folder=folder), Target(lake="lake", namespace=("shop",), table="orders")
    assert lake.address(target).path is None
    (folder / ".tidegate").mkdir(exist_ok=True)
    place = {"uri": f"sqlite:///{folder}/.tidegate/catalog.db", "warehouse": f"{folder}/warehouse"}
    with closing(SqlCatalog("lake", **place)) as catalog:
        catalog.create_namespace("shop")
        table = catalog.create_table("shop.orders", schema=pa.schema([("id", pa.int64())]))
    assert lake.address(target).path == table.metadata_location
