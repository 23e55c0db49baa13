"""Two environments of one project, loaded one after the other: each has rows and positions of its own."""

import json
import sqlite3
from contextlib import closing

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tidegate.cli.app import main

PROJECT = """\
connections: {shop: "sqlite:///${DB:-dev.db}"}
profiles:
  prod: {}
streams:
  orders:
    source: {connection: shop, table: orders}
    target: lake.shop.orders
    key: [id]
    strategy: {kind: sequence, column: id}
    write: append
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "tidegate.yaml").write_text(PROJECT)
    (tmp_path / ".env.prod").write_text("DB=prod.db\n")
    for name, ids in (("dev", (1, 2)), ("prod", (7, 8, 9))):
        with closing(sqlite3.connect(tmp_path / f"{name}.db")) as database, database:
            database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL)")
            database.executemany("INSERT INTO orders VALUES (?)", [(each,) for each in ids])
    return tmp_path


def table(folder, catalog):
    found = SqlCatalog("lake", uri=f"sqlite:///{folder / catalog}").load_table(("shop", "orders"))
    return sorted(row["id"] for row in found.scan().to_arrow().to_pylist()), found.location()


@pytest.mark.spark
@pytest.mark.slow
def test_each_environment_has_its_own_rows_and_positions(folder, capsys):
    for env in ([], ["--env", "prod"], []):
        assert main(["run", "--project", str(folder), "--json", *env]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document.get("profile") == (env[1] if env else None)
    assert document["streams"][0]["outcome"] == "unchanged"
    dev, place = table(folder, ".tidegate/catalog.db")
    prod, elsewhere = table(folder, ".tidegate/prod/catalog.db")
    assert (dev, prod) == ([1, 2], [7, 8, 9])
    assert place != elsewhere
    assert (folder / ".tidegate/prod/registry.db").exists()


@pytest.mark.parametrize("command", ["plan", "check", "doctor", "status"])
def test_every_command_names_the_profile(command, folder, capsys, monkeypatch):
    monkeypatch.setenv("TIDEGATE_ENV", "prod")
    main([command, "--project", str(folder)])
    assert "profile: prod" in capsys.readouterr().err
    main([command, "--project", str(folder), "--json"])
    assert json.loads(capsys.readouterr().out)["profile"] == "prod"


def test_an_unknown_profile_names_those_that_there_are(folder, capsys):
    assert main(["plan", "--project", str(folder), "--env", "prd"]) == 2
    assert "there is no profile 'prd'; did you mean 'prod'?" in capsys.readouterr().err
