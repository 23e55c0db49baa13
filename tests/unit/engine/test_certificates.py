"""Who is told of a server without a certificate, and how often."""

from __future__ import annotations

import json
import logging
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from support.plugin import installed_package
from tidegate import config
from tidegate.api import Project
from tidegate.core.ids import Connection
from tidegate.engine import certificates

PLUGIN = """
from tidegate.core.server import Server
from tidegate.dialects.sqlite import Sqlite


class Newest(Sqlite):
    kind = "newest"

    def server(self, ask):
        return Server.of("SQLite", "4.0.1")


class Unknown(Sqlite):
    kind = "unknown"

    def server(self, ask):
        return None
"""
KINDS = {"newest": "Newest", "unknown": "Unknown"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    installed_package(tmp_path, name="newer_dialects", text=PLUGIN, entries={"dialects": KINDS})
    monkeypatch.syspath_prepend(tmp_path)
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database, database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL)")
    return tmp_path


def project(folder: Path, scheme: str) -> config.Config:
    stream = {"source": {"connection": "shop", "table": "orders"}, "strategy": "full", "write": "replace"}
    values = {
        "connections": {"shop": f"{scheme}:///shop.db", "unused": "postgresql://nobody@127.0.0.1:1/none"},
        "streams": {"orders": {**stream, "target": "lake.shop.orders"}},
    }
    return config.from_dict(values, folder)


def reminded(caplog: pytest.LogCaptureFixture, settings: config.Config, *streams: str) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.WARNING, "tidegate"):
        certificates.remind(settings, streams)
    return caplog.messages


def test_servers_that_are_certified_are_known() -> None:
    known = {(each.dialect, each.product, each.series) for each in certificates.certified()}
    assert {("postgresql", "PostgreSQL", "15"), ("sqlite", "SQLite", "3")} <= known
    assert all(each.passed > 50 for each in certificates.certified())


def test_a_database_with_a_certificate_is_no_matter(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert certificates.missing(Connection(name="shop", url="sqlite:///shop.db")) is None
    assert reminded(caplog, project(folder, "sqlite"), "orders") == []


@pytest.mark.parametrize(
    ("scheme", "text"),
    [("newest", "SQLite 4 has not been certified yet"), ("unknown", "unknown has not been certified yet")],
)
def test_a_project_is_told_once(folder: Path, caplog: pytest.LogCaptureFixture, scheme: str, text: str) -> None:
    settings = project(folder, scheme)
    assert reminded(caplog, settings) == [], "no stream was loaded"
    (line,) = reminded(caplog, settings, "orders")
    assert text in line
    assert "tidegate certify URL" in line
    assert reminded(caplog, settings, "orders") == []
    assert json.loads((folder / certificates.KEPT).read_text()) == {"shop": scheme}
    other = "newest" if scheme == "unknown" else "unknown"
    assert len(reminded(caplog, project(folder, other), "orders")) == 1, "another database is another matter"


def test_what_was_told_is_told_again_where_it_cannot_be_read(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = project(folder, "newest")
    assert len(reminded(caplog, settings, "orders")) == 1
    (folder / certificates.KEPT).write_text("[]")
    assert len(reminded(caplog, settings, "orders")) == 1


def test_doctor_tells_every_time_and_calls_it_no_failure(folder: Path) -> None:
    with Project(project(folder, "newest")) as opened:
        for _ in range(2):
            (found,) = [each for each in opened.doctor() if each.name == "certificate of shop"]
            assert found.ok
            assert "SQLite 4 has not been certified yet" in found.detail
