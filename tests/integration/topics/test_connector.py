"""Kafka Connect runs what `tidegate connector` prints; extreme values arrive in the lake as PostgreSQL has them."""

from __future__ import annotations

import json
import time

import psycopg
import pytest

from integration.topics.test_live import drop_slot
from support.workspace import Workspace

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.postgres, pytest.mark.timeout(600)]

TABLE = """CREATE TABLE parking (id int PRIMARY KEY, amount numeric(38,10), free numeric(10,2), at timestamp(6),
  ms timestamp(3), seen timestamptz, clock time(6), day date, raw bytea, doc jsonb, big bigint, ok boolean,
  note text, tags int[], ref uuid)"""
ROWS = """INSERT INTO parking VALUES
 (1, 1234567890123456789012345678.0123456789, -0.01, '2025-01-31 23:59:59.123457', '2025-01-31 23:59:59.123',
  '2025-06-30 23:59:59.999999+02', '23:59:59.999999', '0001-01-01', '\\x00ff', '{"a": 1.50}', 9223372036854775807,
  true, 'ø', ARRAY[1, NULL], '11111111-2222-3333-4444-555555555555'),
 (2, -9999999999999999999999999999.9999999999, 99999999.99, '0001-01-01 00:00:00.000001', '9999-12-31 23:59:59.999',
  '1900-01-01 00:00:00.000001+00', '00:00:00.000001', '9999-12-31', '', '[]', -9223372036854775808, false, '', '{}',
  NULL),
 (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)"""


def test_a_printed_connector_fills_the_lake_to_the_last_digit(kafka, connect, postgres, tmp_path, monkeypatch):
    url = postgres.create_database()
    name = url.rpartition("/")[2]
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(TABLE)
        admin.execute(ROWS)
    workspace = Workspace(folder=tmp_path)
    source = {"connection": "events", "topic": f"{name}.public.parking", "envelope": "debezium"}
    api = f"http://127.0.0.1:{connect.port}"
    own = {"database": "shop", "table": "public.parking", "connector": {"url": api}}
    stream = {"target": "lake.shop.parking", "key": ["id"], "strategy": "cdc", "write": "merge"}
    workspace.write(
        {"parking": {"source": {**source, **own}, **stream}},
        connections={"events": {"kafka": kafka.bootstrap}, "shop": url},
        spark={"master": "local[2]", "conf": {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}},
    )
    applied = workspace.cli("connector", "parking", "--apply", api, "--json")
    assert applied.returncode == 0, applied.stdout + applied.stderr
    try:
        again = json.loads(workspace.cli("connector", "parking", "--apply", api, "--json").stdout)
        assert again["changed"] == []
        _until(lambda: sum(kafka.ends(source["topic"], (0,)).values()) >= 3, kafka, source["topic"])
        assert workspace.cli("run").returncode == 0
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute("TRUNCATE parking")
            admin.execute(ROWS)
            admin.execute("UPDATE parking SET id = 4, amount = 0.0000000001 WHERE id = 3")
            admin.execute("DELETE FROM parking WHERE id = 2")
        deadline = time.monotonic() + 120
        while True:
            workspace.cli("run")
            proof = json.loads(workspace.cli("verify", "--level", "rows", "--json").stdout)
            if proof["streams"][0]["equal"]:
                break
            assert time.monotonic() < deadline, proof
        assert proof["streams"][0]["source_rows"] == proof["streams"][0]["target_rows"] == 2
        (status,) = json.loads(workspace.cli("status", "--json").stdout)["streams"]
        assert status["lag_error"] is None
        assert (status["slot"]["name"], status["slot"]["active"]) == (f"tidegate_{name}", True)
        assert status["connector"] == {"name": name, "state": "RUNNING", "reason": None}
        assert ", slot " in workspace.cli("status").stdout
    finally:
        connect.stop(name)
        drop_slot(postgres, f"tidegate_{name}")


def _until(done, kafka, topic):
    deadline = time.monotonic() + 120
    while topic not in kafka.topics() or not done():
        assert time.monotonic() < deadline, "the connector writes nothing"
        time.sleep(0.3)
