"""The loaders in a session that somebody else started: at a Spark Connect server."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from integration.loaders.test_rows import appended, check_appended, check_followed, check_merged, merged
from support.lake import QUICK, delta_rows
from support.loading import Bench
from tidegate.loaders._selftest import SelfTest

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[3]


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


def test_the_loaders_work_at_a_connect_server_whose_session_stays_as_it_was(remote):
    settings, told = remote.settings(), []
    test = SelfTest(remote.spark, remote.path("self-test"), told.append)
    assert test.run(), told
    check_appended(appended(remote, target_format="delta"))
    check_merged(merged(remote, remote.path("customers"), target_format="delta"))
    check_followed(remote, remote.path("customers"))
    assert remote.watermarks() == {"rows": "2025-01-03 00:00:00.000000", "customers": "7"}
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
