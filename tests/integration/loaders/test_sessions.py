"""The loaders in a session that somebody else started: at a Spark Connect server."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from support.lake import QUICK, delta_rows
from support.loading import Bench
from tidegate.loaders import CDCLoader, DeltaCDFLoader, SequenceBasedLoader
from tidegate.loaders._selftest import SelfTest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).parents[3]
EVENTS = "id bigint, name string, operation string, sequence_num bigint"


@pytest.fixture
def remote(connect_server, tmp_path):
    """A session of the caller at a Connect server, far from UTC, that knows Delta as its own catalog."""
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession.builder.remote(connect_server).create()
    known = {"spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog"}
    for name, value in {**QUICK, **known, "spark.sql.session.timeZone": "America/New_York"}.items():
        session.conf.set(name, value)
    yield Bench(session, tmp_path)
    session.stop()


PATTERNS = [
    pytest.param(("differences",), id="sample"),
    pytest.param(("timestamps", "change_events", "sequences"), id="others", marks=pytest.mark.exhaustive),
]


@pytest.mark.parametrize("patterns", PATTERNS)
def test_files_are_loaded_at_a_connect_server_whose_session_stays_as_it_was(remote, patterns):
    settings, told = remote.settings(), []
    test = SelfTest(remote.spark, remote.path("self-test"), told.append)
    for pattern in patterns:
        getattr(test, pattern)()
    assert [line.split(":")[0] for line in told] == [f"ok      {name.replace('_', ' ')}" for name in patterns], told
    assert remote.settings() == settings


@pytest.mark.exhaustive
def test_delta_tables_are_source_and_target_at_a_connect_server(remote):
    settings = remote.settings()
    events = remote.write("events", EVENTS, (1, "a", "INSERT", 1), (2, "b", "INSERT", 2), (1, "c", "UPDATE", 3))
    goal, mart = remote.path("customers"), remote.path("mart")
    changes = CDCLoader(remote.spark, target_format="delta")
    assert changes.process_cdc(events, goal, remote.marks, "id").records == 2
    remote.spark.sql(f"ALTER TABLE delta.`{goal}` SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    feed = DeltaCDFLoader(remote.spark, goal, remote.path("loads"), "id", mart, target_format="delta")
    assert feed.load().records == 2
    remote.write("events", EVENTS, (2, None, "DELETE", 4), (3, "d", "INSERT", 5))
    assert changes.process_cdc(events, goal, remote.marks, "id").records == 2
    assert (feed.load().deleted, remote.watermarks()) == (1, {"customers": "5"})
    assert sorted((row["id"], row["name"]) for row in delta_rows(mart)) == [(1, "c"), (3, "d")]
    # A loader of another kind in the same session, into files.
    numbers = SequenceBasedLoader(remote.spark)
    source, target = remote.write("log", "n bigint", (1,), (4,)), remote.path("numbers")
    assert numbers.load_incremental(source, target, remote.marks, "n").gaps == 2
    assert numbers.load_incremental(source, target, remote.marks, "n").records == 0
    assert remote.settings() == settings


@pytest.mark.servers
@pytest.mark.timeout(900)
def test_a_script_is_submitted_to_a_cluster_of_two_workers(cluster, tmp_path):
    program = shutil.make_archive(str(tmp_path / "tidegate"), "zip", ROOT / "src")

    def submit():
        done = cluster.submit(str(Path(__file__).with_name("load.py")), str(tmp_path), files=[program])
        assert done.returncode == 0, done.stderr[-4000:]
        told = json.loads(done.stdout.splitlines()[-1])
        assert told["program"].startswith(program) or "/userFiles-" in told["program"]
        return told["records"]

    arrive(tmp_path, 1, [(1, "INSERT"), (2, "INSERT")])
    assert submit() == {"orders": 2, "customers": 2}
    arrive(tmp_path, 2, [(2, "DELETE"), (3, "INSERT")])
    assert submit() == {"orders": 2, "customers": 2}
    found = parquet.read_table(tmp_path / "orders", columns=["id"]).column("id").to_pylist()
    assert sorted(found) == [1, 2, 2, 3]
    assert sorted(row["id"] for row in delta_rows(str(tmp_path / "customers"))) == [1, 3]
    for worker in cluster.workers:
        assert len(list(worker.glob("app-*"))) == 2, "a worker has had no part in it"


def arrive(folder, number, changes):
    """A file for every loader, written by Arrow; rows of the second one come at a time of their own."""
    ids, kinds = [list(column) for column in zip(*changes, strict=True)]
    at = [datetime(2025, 1, number, hour, tzinfo=UTC) for hour in range(len(ids))]
    events = {"id": ids, "operation": kinds, "sequence_num": [10 * number + place for place in range(len(ids))]}
    for name, columns in (("source", {"id": ids, "at": at}), ("events", events)):
        (folder / name).mkdir(exist_ok=True)
        parquet.write_table(pa.table(columns), folder / name / f"{number}.parquet")
