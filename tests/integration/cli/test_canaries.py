"""Secrets of every kind through a first load, an error, and every command that shows something."""

import sqlite3

import pytest

from integration.cli.terminal import Terminal
from support.process_list import Processes
from support.workspace import Workspace

pytestmark = pytest.mark.spark

NAMES = ("AZURE", "AUTHORIZATION", "SSE", "PRIVATE", "ODD", "QUERY")
CANARIES = {name: f"canary-{name.lower()}-5f2b" for name in NAMES}
CANARIES["QUERY"] = "canaryquery5f2b"


@pytest.fixture
def workspace(tmp_path) -> Workspace:
    found = Workspace(folder=tmp_path / "project")
    found.folder.mkdir()
    (found.folder / "events").mkdir()
    with sqlite3.connect(found.folder / "shop.db") as shop:
        shop.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)")
        shop.executemany("INSERT INTO t VALUES (?, ?)", [(n, f"n{n}") for n in range(9)])
    conf = {
        "spark.driver.memory": "1g",
        "spark.eventLog.enabled": True,
        "spark.eventLog.dir": f"file://{found.folder / 'events'}",
        "spark.eventLog.compress": False,
        "spark.hadoop.fs.azure.account.key.mine.dfs.core.windows.net": "${AZURE}",
        "spark.hadoop.google.cloud.auth.service.account.private.key": "${PRIVATE}",
        "spark.hadoop.fs.gs.odd.setting": "prefix ${ODD}",
    }
    catalog = {"type": "sqlite", "header.Authorization": "Bearer ${AUTHORIZATION}", "s3.sse.key": "${SSE}"}
    stream = {
        "source": {"connection": "shop", "query": "SELECT id, name FROM t WHERE name <> '${QUERY}'"},
        "target": "lake.s.t",
        "key": ["id"],
        "strategy": "full",
        "write": "replace",
    }
    found.write(
        {"t": stream, "broken": {**stream, "target": "lake.s.b", "checks": [{"expression": "nope = '${QUERY}'"}]}},
        connections={"shop": {"url": f"sqlite:///{found.folder / 'shop.db'}"}},
        spark={"master": "local[1]", "conf": conf},
        lakes={"lake": {"catalog": catalog}},
    )
    return found


def leaks(data: bytes) -> list[str]:
    return [name for name, canary in CANARIES.items() if canary.encode() in data]


def test_no_secret_leaves_the_project(workspace, tmp_path, capfd, monkeypatch):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    for name, canary in CANARIES.items():
        monkeypatch.setenv(name, canary)
    tidegate = Terminal(folder=workspace.folder, capfd=capfd)
    debug = ("--log-level", "debug")
    with Processes() as processes:
        ran = tidegate.process("run", "--json", *debug, "--log-format", "json", TMPDIR=str(temporary))
    outcomes = {each["stream"]: (each["verified"], bool(each["error"])) for each in ran.document["streams"]}
    assert outcomes == {"t": (True, False), "broken": (None, True)}, ran.err[-2000:]
    assert any(b"SparkSubmit" in each for each in processes.seen), "no command line of Spark was seen"
    assert not any(leaks(each) for each in processes.seen)
    shown = (
        ("plan", "--json"),
        ("plan", *debug),
        ("check", "--source", "--json"),
        ("status", "--json"),
        ("history", "t", "--json"),
        ("tasks", "--json"),
        ("show", "t", "--json"),
        ("show", "t"),
        ("proof", "t"),
        ("metrics",),
        ("state", "show", "t"),
        ("doctor", "--json"),
        ("export", "dbt-sources"),
        ("export", "snowflake"),
    )
    for words, said in [(("run",), ran), *((words, tidegate(*words)) for words in shown)]:
        assert not leaks(said.everything.encode()), words
    events = [path for path in (workspace.folder / "events").rglob("*") if path.is_file()]
    assert any(b"SparkListenerEnvironmentUpdate" in path.read_bytes() for path in events)
    files = [path for folder in (workspace.folder, temporary) for path in folder.rglob("*") if path.is_file()]
    assert {"registry.db", "catalog.db"} <= {path.name for path in files}
    found = {path: leaks(path.read_bytes()) for path in files if leaks(path.read_bytes())}
    # Spark names a scan by its query, and masks no names; SECURITY.md says so.
    assert {path for path, names in found.items() if path not in events or names != ["QUERY"]} == set()
