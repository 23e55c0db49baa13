"""A load on Delta that was seen and never verified, whose source is a server: the next run proves it and goes on."""

from __future__ import annotations

import psycopg
import pytest

from support.lake import QUICK, delta_rows
from support.workspace import Workspace
from tidegate.engine.events import Moment, Stage
from tidegate.testing import Crash, crash_at

pytest_plugins = ["support.mariadb"]
pytestmark = [pytest.mark.spark, pytest.mark.timeout(600), pytest.mark.slow]

INSERT = "insert into t (at, name) values ('2025-01-{0:02} 00:00:00', 'row {0}')"
CREATE = "create table t ({} primary key, at timestamp not null, name varchar(20) not null)"
NUMBERED = {"postgresql": "id bigint generated always as identity", "mariadb": "id bigint auto_increment"}
TIMED = {"kind": "watermark", "column": "at", "lookback": "4d"}
STREAMS = {
    "watermark": {"strategy": TIMED, "write": "merge"},
    "history": {"strategy": TIMED, "write": "scd2"},
    "window": {"strategy": {"kind": "watermark", "column": "at"}, "write": "append"},
    "sequence": {"strategy": {"kind": "sequence", "column": "id"}, "write": "append"},
    "smart": {"strategy": {"kind": "smart", "column": "at"}, "write": "merge"},
}


@pytest.fixture(params=[pytest.param("postgresql", marks=pytest.mark.postgres), "mariadb"])
def database(request):
    """The URL of an empty database, and what runs statements in it."""
    if request.param == "postgresql":
        url = request.getfixturevalue("pg_url")
        with psycopg.connect(url, autocommit=True) as session:
            yield request.param, url, lambda *all_: [session.execute(each) for each in all_]
        return
    server = request.getfixturevalue("mariadb")
    name = request.getfixturevalue("maria_database")
    yield request.param, server.url(name), lambda *all_: server.run(*all_, database=name)


def outcome(workspace: Workspace, spark) -> str:
    (found,) = workspace.run("t", spark=spark).streams
    return f"{found.error.code}: {found.error.message}" if found.error else str(found.outcome)


def current(workspace: Workspace) -> list[tuple[int, str]]:
    rows = delta_rows(str(workspace.folder / "warehouse" / "out" / "t"))
    return sorted((row["id"], row["name"]) for row in rows if row.get("valid_to") is None)


@pytest.mark.parametrize("lost", [False, True], ids=["registry", "registry lost"])
@pytest.mark.parametrize(
    "kind",
    [pytest.param(each, marks=() if each in ("watermark", "sequence") else pytest.mark.exhaustive) for each in STREAMS],
)
def test_a_load_that_was_seen_and_not_verified_is_proven(tmp_path, spark, database, kind, lost):
    engine, url, sql = database
    sql(CREATE.format(NUMBERED[engine]), *map(INSERT.format, range(1, 7)))
    workspace = Workspace(folder=tmp_path)
    source = {"connection": "shop", "table": "t"}
    workspace.write(
        {"t": {"source": source, "target": "lake.out.t", "key": ["id"], **STREAMS[kind]}},
        connections={"shop": {"url": url}},
        lakes={"lake": {"format": "delta"}},
        spark={"conf": QUICK},
    )
    assert outcome(workspace, spark) == "loaded"
    sql(*map(INSERT.format, (7, 8)))
    with pytest.raises(Crash):
        workspace.run("t", spark=spark, on_event=crash_at((Stage.WRITE, Moment.DONE)))
    assert current(workspace) == [(n, f"row {n}") for n in range(1, 9)]
    if lost:
        for file in (tmp_path / ".tidegate").glob("registry.db*"):
            file.unlink()
    sql(INSERT.format(9))
    assert outcome(workspace, spark) == "loaded"
    assert current(workspace) == [(n, f"row {n}") for n in range(1, 10)]
    assert outcome(workspace, spark) == "unchanged"
    (tmp_path / ".tidegate" / "registry.db").unlink()
    assert outcome(workspace, spark) == "unchanged"
    assert current(workspace) == [(n, f"row {n}") for n in range(1, 10)]
