"""`tidegate export snowflake` from the command line: a script without secrets, and lakes that Snowflake cannot read."""

from __future__ import annotations

import json

import pytest

from support.workspace import Workspace

STREAM = {"source": {"connection": "shop", "table": "orders"}, "strategy": "full", "write": "replace"}


@pytest.fixture
def workspace(tmp_path) -> Workspace:
    found = Workspace(folder=tmp_path)
    lakes = {
        "open": {
            "format": "iceberg",
            "warehouse": "sales",
            "catalog": {"type": "rest", "uri": "https://catalog.example", "credential": "id:${CREDENTIAL}"},
        },
        "delta": {"format": "delta", "warehouse": "s3://bucket/lake"},
        "here": {"format": "iceberg"},
    }
    streams = {name: {**STREAM, "target": f"{name}.shop.orders"} for name in lakes}
    found.write(streams, connections={"shop": "sqlite:///shop.db"}, lakes=lakes)
    return found


def test_the_script_holds_no_secret_and_says_what_is_left_out(workspace) -> None:
    secret = {"CREDENTIAL": "hunter2-of-the-catalog"}
    file = workspace.folder / "snowflake.sql"
    done = workspace.cli("export", "snowflake", "--output", str(file), env=secret)
    assert (done.returncode, "2 tables" in done.stderr) == (0, True), done.stderr
    text = file.read_text(encoding="utf-8")
    assert "hunter2" not in text
    assert "OAUTH_CLIENT_SECRET = '<client secret>'" in text
    assert "BASE_LOCATION = 'shop/orders'" in text
    assert "-- Left out: here: its warehouse is a folder of this machine" in text
    told = json.loads(workspace.cli("export", "snowflake", "--json", env=secret).stdout)
    assert (told["tables"], told["script"]) == (2, text.rstrip("\n"))
    assert 'ALTER ICEBERG TABLE "DELTA"."SHOP"."ORDERS" REFRESH;' in told["refresh"]


def test_a_lake_of_this_machine_is_refused_with_the_reason(workspace) -> None:
    done = workspace.cli("export", "snowflake", "here", env={"CREDENTIAL": "x"})
    assert done.returncode == 2
    assert "a folder of this machine, which Snowflake cannot read" in done.stderr


@pytest.mark.spark
def test_a_table_in_a_catalog_of_its_own_is_found_by_its_newest_metadata(tmp_path, spark) -> None:
    workspace = Workspace(folder=tmp_path)
    workspace.write({"orders": {**STREAM, "target": "lake.shop.orders"}}, connections={"shop": "sqlite:///shop.db"})
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop, shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL)")
        shop.execute("INSERT INTO orders VALUES (1)")
    with workspace.project(spark) as project:
        (stream,) = project.streams()
        assert stream.format.inspection.address(stream.target).path is None
        project.run().raise_on_failure()
        address = stream.format.inspection.address(stream.target)
    assert address.path == workspace.table("shop.orders").metadata_location
