"""A project on SQLite, and the command line called as a user calls it, in this process."""

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass

import pytest

from tidegate.cli.app import main

PROJECT = """\
connections: {shop: {url: "sqlite:///shop.db"}}
streams:
  orders:
    source: {connection: shop, table: orders}
    target: lake.shop.orders
    key: [id]
    strategy: {kind: sequence, column: id}
    write: append
  items:
    source: {connection: shop, table: items}
    target: lake.shop.items
    strategy: {kind: full}
    write: replace
"""


@dataclass
class Said:
    """What a command said."""

    exit_code: int
    out: str
    err: str

    @property
    def document(self):
        """The one JSON document on stdout."""
        return json.loads(self.out)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "tidegate.yaml").write_text(PROJECT, encoding="utf-8")
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database, database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, amount INTEGER)")
        database.execute("CREATE TABLE items (id INTEGER PRIMARY KEY NOT NULL)")
        database.execute("INSERT INTO orders VALUES (1, 10), (2, 20)")
    return tmp_path


@pytest.fixture
def tidegate(capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(*words):
        exit_code = main(words)
        out, err = capfd.readouterr()
        return Said(exit_code, out, err)

    return call
