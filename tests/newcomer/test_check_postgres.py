"""`check --source` asks PostgreSQL what a user may read, and which columns no table of a lake can keep."""

import json

import psycopg
import pytest
import yaml

from tidegate.cli.app import main

pytestmark = [pytest.mark.postgres, pytest.mark.slow]


def stream(table, **more):
    found = {"source": {"connection": "shop", "table": table}, "target": f"lake.s.{table.replace('.', '_')}"}
    return {**found, "key": ["id"], "strategy": "full", "write": "merge", **more}


@pytest.fixture
def folder(tmp_path, postgres, pg_url):
    with psycopg.connect(pg_url, autocommit=True) as server:
        server.execute("CREATE ROLE reader LOGIN")
        for table in ("orders", "secret", "half"):
            server.execute(f"CREATE TABLE {table} (id bigint PRIMARY KEY, amount numeric(9,2), note text)")
        server.execute("CREATE TABLE odd (id bigint PRIMARY KEY, place point, range int4range)")
        server.execute("GRANT SELECT ON orders, odd TO reader")
        server.execute("GRANT SELECT (id, amount) ON half TO reader")
    database = pg_url.rpartition("/")[2]
    streams = {
        "orders": stream("public.orders"),
        "misspelt": stream("public.order", strategy={"kind": "watermark", "column": "at"}),
        "secret": stream("public.secret"),
        "half": stream("public.half"),
        "odd": stream("public.odd"),
    }
    project = {"connections": {"shop": postgres.url(database, user="reader")}, "streams": streams}
    (tmp_path / "tidegate.yaml").write_text(yaml.safe_dump(project))
    yield tmp_path
    with psycopg.connect(pg_url, autocommit=True) as server:
        server.execute("DROP OWNED BY reader")
        server.execute("DROP ROLE reader")


def test_everything_that_a_run_would_stop_at_is_told(folder, capsys):
    assert main(["check", "--source", "--project", str(folder), "--json"]) == 2
    streams = {one["name"]: one for one in json.loads(capsys.readouterr().out)["streams"]}
    told = {name: [error["message"] for error in one["errors"]] for name, one in streams.items()}
    assert told["orders"] == []
    assert "did you mean 'public.orders'?" in told["misspelt"][0]
    assert "permission denied for table secret" in told["secret"][0]
    assert "permission denied for table half" in told["half"][0]
    assert "'place' (point), 'range' (int4range)" in told["odd"][0]
    assert all(len(each) == 1 for name, each in told.items() if name != "orders")
