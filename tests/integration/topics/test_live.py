"""The whole way: PostgreSQL, Debezium, Kafka, Tidegate killed again and again; in the end the tables are equal."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from support.postgres import PostgresServer, binaries
from support.workspace import Workspace

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.postgres, pytest.mark.timeout(1800)]

TABLE = """CREATE TABLE orders (id int PRIMARY KEY, name text, amount numeric(10,2), changed timestamptz, note text,
  state char(5), tags int[], day date, at time, doc jsonb, raw bytea, plain numeric, ok boolean, ref uuid)"""
INSERT = """INSERT INTO orders SELECT g, 'n' || g, g * 1.25, clock_timestamp(), repeat(md5(g::text), 200), 'ab',
  ARRAY[g, NULL], date '2025-01-01' + g, time '10:00' + g * interval '1 s', jsonb_build_object('a', g), '\\xdead',
  g + 0.5, g % 2 = 0, gen_random_uuid() FROM generate_series({first}, {last}) g ON CONFLICT DO NOTHING"""
# One transaction of one or two statements, one in ten of them rolled back.
WRITES = """\\set ends random(1, 10)
\\set again random(0, 1)
BEGIN;
{first}
\\if :again = 1
{second}
\\endif
\\if :ends = 1
ROLLBACK;
\\else
COMMIT;
\\endif
"""
# A key that changes comes with a new note: what is not logged of such a row, nobody can tell.
WRITE = """\\set n random(1, 300)
\\set few :n + random(0, 5)
\\set what random(1, 6)
\\if :what = 1
{insert}
\\elif :what = 2
UPDATE orders SET name = name || '+', changed = clock_timestamp() WHERE id % 50 = :n % 50;
\\elif :what = 3
UPDATE orders SET amount = NULL, ok = NOT ok WHERE id = :n;
\\elif :what = 4
DELETE FROM orders WHERE id BETWEEN :n AND :n + 3;
\\elif :what = 5
UPDATE orders SET id = -id, note = 'k' WHERE id = :n AND NOT EXISTS (SELECT FROM orders WHERE id = -:n);
\\else
UPDATE orders SET note = repeat(md5(random()::text), 300) WHERE id = :n;
\\endif"""
SLOT = "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s"
DROP = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s AND NOT active"
CONNECTOR = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "plugin.name": "pgoutput",
    "publication.autocreate.mode": "filtered",
    "database.hostname": "127.0.0.1",
    "database.user": "postgres",
    "database.password": "none",
    "table.include.list": "public.orders",
    "poll.interval.ms": "50",
}


ONE = WRITE.format(insert=" ".join(INSERT.format(first=":n", last=":few").split()) + ";")
WRITES = WRITES.format(first=ONE, second=ONE)


def drop_slot(postgres, name):
    """Waits for a connector that has stopped to let its slot go, and drops it."""
    with postgres.connect() as admin:
        for _ in range(50):
            admin.execute(DROP, (name,))
            if admin.execute(SLOT, (name,)).fetchone() is None:
                break
            time.sleep(0.2)


@contextmanager
def pgbench(postgres: PostgresServer, database: str, folder: Path, seed: int) -> Iterator[None]:
    """Two clients that write until the block ends."""
    script = folder / "writes.sql"
    script.write_text(WRITES, encoding="utf-8")
    login = ("-h", "127.0.0.1", "-p", str(postgres.port), "-U", "postgres")
    options = ("-n", "-c", "2", "-R", "8", "-T", "3600", "--max-tries=1000", f"--random-seed={seed}")
    with (folder / "pgbench").open("w+") as output:
        command = [str(binaries() / "pgbench"), *login, *options, "-f", str(script), database]
        process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            yield
            assert process.poll() is None, (folder / "pgbench").read_text(encoding="utf-8")
        finally:
            process.terminate()
            process.wait(timeout=30)


def killed(folder, after: float) -> None:
    """A run that is ended with everything it started, whatever it is doing by then."""
    command = [sys.executable, "-m", "tidegate", "run", "--project", str(folder)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, start_new_session=True, env=dict(os.environ), **quiet)
    try:
        process.wait(timeout=after)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=30)


@pytest.mark.parametrize("kills", [2, pytest.param(10, marks=pytest.mark.exhaustive)])
def test_postgresql_to_the_lake_through_debezium(kafka, connect, postgres, tmp_path, kills):
    seed = random.randrange(10**6)
    print(f"seed {seed}")  # noqa: T201 - told when it fails
    url = postgres.create_database()
    name = url.rpartition("/")[2]
    prefix = f"live{kills}"
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(TABLE)
        admin.execute("ALTER TABLE orders ALTER note SET STORAGE EXTERNAL")
        admin.execute(INSERT.format(first=1, last=200))
    database = {"database.port": str(postgres.port), "database.dbname": name}
    kafka.create_topic(f"{prefix}.public.orders", partitions=2)
    workspace = Workspace(folder=tmp_path)
    workspace.write(
        {
            "orders": {
                "source": {
                    "connection": "events",
                    "topic": f"{prefix}.public.orders",
                    "envelope": "debezium",
                    "database": "shop",
                    "table": "public.orders",
                },
                "target": "lake.shop.orders",
                "key": ["id"],
                "strategy": {"kind": "cdc", "max_events": 2000},
                "write": "merge",
            }
        },
        connections={"events": {"kafka": kafka.bootstrap}, "shop": url},
        spark={"master": "local[2]", "conf": {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}},
    )
    connect.start(prefix, {**CONNECTOR, **database, "topic.prefix": prefix, "slot.name": prefix})
    try:
        chance = random.Random(seed)
        with pgbench(postgres, name, tmp_path, seed):
            for _ in range(kills):
                killed(tmp_path, chance.uniform(5, 30))
        time.sleep(1)
        assert sum(kafka.ends(f"{prefix}.public.orders", (0, 1)).values()) > 300, "it was written to all the time"
        deadline = time.monotonic() + 900
        while True:
            ran = workspace.cli("run", "--json")
            assert ran.returncode == 0, ran.stdout + ran.stderr
            outcome = json.loads(ran.stdout)["streams"][0]
            if outcome["outcome"] == "unchanged":
                proof = workspace.cli("verify", "--level", "rows", "--json")
                found = json.loads(proof.stdout)
                if proof.returncode == 0:
                    break
            assert time.monotonic() < deadline, "the tables do not become equal"
        (stream,) = found["streams"]
        assert stream["equal"] is True
        assert stream["source_rows"] == stream["target_rows"] > 0
        assert workspace.table("shop.orders").scan().to_arrow().num_rows == stream["source_rows"]
    finally:
        connect.stop(prefix)
        drop_slot(postgres, prefix)
