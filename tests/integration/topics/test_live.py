"""The whole way: PostgreSQL, the connector that Tidegate prints, Kafka, Tidegate killed again and again.

In the end the tables are equal to the last digit.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from integration.topics.conftest import drop_slot, until
from support.postgres import PostgresServer, binaries
from support.workspace import Workspace

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.postgres, pytest.mark.timeout(1800)]

TABLE = """CREATE TABLE orders (id int PRIMARY KEY, name text, amount numeric(38,10), changed timestamptz, note text,
  state char(5), tags int[], day date, at time(6), doc jsonb, raw bytea, plain numeric, ok boolean, ref uuid,
  big bigint, made timestamp(6), ms timestamp(3))"""
COLUMNS = "id, name, amount, changed, note, state, tags, day, at, doc, raw, plain, ok, ref"
INSERT = f"""INSERT INTO orders ({COLUMNS}) SELECT g, 'n' || g, g * 1.25, clock_timestamp(), repeat(md5(g::text), 200),
  'ab', ARRAY[g, NULL], date '2025-01-01' + g, time '10:00' + g * interval '1 s', jsonb_build_object('a', g), '\\xdead',
  g + 0.5, g % 2 = 0, gen_random_uuid() FROM generate_series({{first}}, {{last}}) g ON CONFLICT DO NOTHING"""
EXTREMES = """INSERT INTO orders VALUES
 (1, 'ø', 1234567890123456789012345678.0123456789, '2025-06-30 23:59:59.999999+02', NULL, '', ARRAY[1, NULL],
  '0001-01-01', '23:59:59.999999', '{"a": 1.50}', '\\x00ff', -0.0000001, true, '11111111-2222-3333-4444-555555555555',
  9223372036854775807, '2025-01-31 23:59:59.123457', '2025-01-31 23:59:59.123'),
 (2, '', -9999999999999999999999999999.9999999999, '1900-01-01 00:00:00.000001+00', '', NULL, '{}', '9999-12-31',
  '00:00:00.000001', '[]', '', 99999999.99, false, NULL, -9223372036854775808, '0001-01-01 00:00:00.000001',
  '9999-12-31 23:59:59.999'),
 (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)"""
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
ONE = WRITE.format(insert=" ".join(INSERT.format(first=":n", last=":few").split()) + ";")
WRITES = WRITES.format(first=ONE, second=ONE)


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
            process.wait(timeout=240)


def killed(folder, after: float) -> None:
    """A run that is ended with everything it started, whatever it is doing by then."""
    command = [sys.executable, "-m", "tidegate", "run", "--project", str(folder)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, start_new_session=True, env=dict(os.environ), **quiet)
    try:
        process.wait(timeout=after)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=240)


def test_postgresql_to_the_lake_through_debezium(kafka, connect, postgres, tmp_path):
    seed = random.randrange(10**6)
    print(f"seed {seed}")  # noqa: T201 - told when it fails
    url = postgres.create_database()
    name = url.rpartition("/")[2]
    topic, api = f"{name}.public.orders", f"http://127.0.0.1:{connect.port}"
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(TABLE)
        admin.execute("ALTER TABLE orders ALTER note SET STORAGE EXTERNAL")
        admin.execute(INSERT.format(first=1, last=200))
    kafka.create_topic(topic, partitions=2)
    workspace = Workspace(folder=tmp_path)
    own = {"database": "shop", "table": "public.orders", "connector": {"url": api}}
    stream = {
        "source": {"connection": "events", "topic": topic, "envelope": "debezium", **own},
        "target": "lake.shop.orders",
        "key": ["id"],
        "strategy": {"kind": "cdc", "max_events": 2000},
        "write": "merge",
    }
    workspace.write(
        {"orders": stream},
        connections={"events": {"kafka": kafka.bootstrap}, "shop": url},
        spark={"master": "local[2]", "conf": {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}},
    )

    def said(*words):
        done = workspace.cli(*words, "--json")
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    def equal():
        (outcome,) = said("run")["streams"]
        assert outcome["error"] is None, outcome
        return outcome["outcome"] == "unchanged" and said("verify", "--level", "rows")["streams"][0]["equal"]

    applied = workspace.cli("connector", "orders", "--apply", api, "--json")
    assert applied.returncode == 0, applied.stdout + applied.stderr
    try:
        assert said("connector", "orders", "--apply", api)["changed"] == []
        with pgbench(postgres, name, tmp_path, seed):
            chance = random.Random(seed)
            for _ in range(2):
                killed(tmp_path, chance.uniform(5, 30))
        until(lambda: sum(kafka.ends(topic, (0, 1)).values()) > 300, "it was written to all the time")
        until(equal, "the tables do not become equal", seconds=900)
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute("TRUNCATE orders")
            admin.execute(EXTREMES)
            admin.execute("UPDATE orders SET id = 4, amount = 0.0000000001 WHERE id = 3")
        until(equal, "the tables do not become equal", seconds=300)
        (proof,) = said("verify", "--level", "rows")["streams"]
        assert (proof["equal"], proof["source_rows"], proof["target_rows"]) == (True, 3, 3)
        assert {row["id"] for row in workspace.rows("shop.orders")} == {1, 2, 4}
        (status,) = said("status")["streams"]
        assert status["lag_error"] is None
        assert (status["slot"]["name"], status["slot"]["active"]) == (f"tidegate_{name}", True)
        assert status["connector"] == {"name": name, "state": "RUNNING", "reason": None}
        assert ", slot " in workspace.cli("status").stdout
    finally:
        connect.stop(name)
        drop_slot(postgres, f"tidegate_{name}")
