"""The loader classes on a real S3 server: folders of files, Delta paths and sources, and two loads of one at once."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import s3fs
from deltalake import DeltaTable, QueryBuilder
from pyarrow import parquet

from support.lake import EXTENSIONS, QUICK
from support.loading import Bench
from support.object_store import ACCESS, REGION, SECRET
from tidegate.errors import PositionMissing, PositionMoved, WriteError
from tidegate.loaders import CDCLoader, IncrementalLoader, SequenceBasedLoader
from tidegate.loaders._applying import Checks
from tidegate.loaders._objects import Objects
from tidegate.spark import jars
from tidegate.spark.session import Sessions

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.timeout(600)]

EVENTS = "id bigint, name string, operation string, sequence_num bigint"
LOGIN = {"spark.hadoop.fs.s3a.access.key": ACCESS, "spark.hadoop.fs.s3a.secret.key": SECRET}
# Of one bucket, as of one that another login opens.
WRONG = {"spark.hadoop.fs.s3a.bucket.foreign.secret.key": f"{SECRET}x"}
# What a plain Spark lacks: EMR and Databricks know `s3://` by themselves.
SCHEME = {"spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem"}


class Bucket(Bench):
    """A folder of a bucket, by one of its spellings."""

    def path(self, name):
        return f"{self.folder}/{name}"


@pytest.fixture(scope="module")
def spark_on_s3(s3_server):
    """A session of a caller whose settings alone know where the store is and how to log in."""
    conf = {"spark.driver.memory": "1g", "spark.ui.enabled": "false", **QUICK, **s3_server.hadoop}
    conf |= {**LOGIN, **WRONG, **SCHEME, "spark.databricks.delta.snapshotPartitions": "1"}
    needed = [jars.DELTA, jars.DELTA_STORAGE, jars.ICEBERG, *jars.S3A]
    with Sessions(master="local[2]", conf=conf, lakes=[EXTENSIONS], jars=needed) as sessions:
        sessions.load_session()
        session = sessions._built.newSession()
        session.conf.set("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        yield session


@pytest.fixture
def store(s3_server, monkeypatch):
    """The server, with nothing in the environment that would lead there."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    made = [s3_server.bucket(name) for name in ("work", "foreign")]
    yield s3_server
    for bucket in made:
        bucket.rename(bucket.with_name(f"{bucket.name}-{id(made)}"))


@pytest.fixture(params=["s3a", "s3"])
def bench(request, spark_on_s3, store):
    return Bucket(spark_on_s3, f"{request.param}://work")


@pytest.fixture
def one(spark_on_s3, store):
    return Bucket(spark_on_s3, "s3a://work")


def client(store):
    return s3fs.S3FileSystem(
        key=ACCESS, secret=SECRET, endpoint_url=store.endpoint, use_listings_cache=False, skip_instance_cache=True
    )


def delta_ids(store, name):
    """What delta-rs reads, which knows nothing of Hadoop."""
    options = {"AWS_ENDPOINT_URL": store.endpoint, "AWS_ALLOW_HTTP": "true", "AWS_REGION": REGION}
    options |= {"AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET}
    table = DeltaTable(f"s3://work/{name}", storage_options=options)
    found = QueryBuilder().register("t", table).execute("SELECT id FROM t").read_all()
    return sorted(row["id"] for row in found.to_struct_array().to_pylist())


def numbers(bench, target, kind="parquet", **named):
    loader = SequenceBasedLoader(bench.spark, target_format=kind)
    return loader.load_incremental(bench.path("source"), bench.path(target), bench.marks, "id", target, **named)


def ids(bench, target):
    return [row[0] for row in bench.rows(IncrementalLoader(bench.spark), bench.path(target), "id")]


def test_files_reach_a_folder_of_files_once(bench, store):
    bench.write("source", "id bigint, v string", (1, "a"), (2, "b"))
    assert numbers(bench, "target").records == 2
    bench.write("source", "id bigint, v string", (2, "late"), (3, "c"))
    assert numbers(bench, "target").records == 2
    assert numbers(bench, "target").records == 0
    assert bench.watermarks() == {"target": "3"}
    assert ids(bench, "target") == [1, 2, 2, 3]
    files = client(store)
    names = [name for name in files.find("work/target") if name.endswith(".parquet")]
    read = [parquet.read_table(files.open(name)).column("id").to_pylist() for name in names]
    assert sorted(number for some in read for number in some) == [1, 2, 2, 3], "nothing else lies there"
    with pytest.raises(PositionMissing, match="has rows but no position of 'other'"):
        SequenceBasedLoader(bench.spark).load_incremental(
            bench.path("source"), bench.path("target"), bench.marks, "id", "other"
        )


def test_change_events_in_csv_files_update_and_delete(one, store):
    loader = CDCLoader(one.spark, target_format="delta", schema=EVENTS, read_options={"header": "true"})

    def apply(*events):
        one.write("events", EVENTS, *events, kind="csv")
        result = loader.process_cdc(one.path("events"), one.path("target"), one.marks, "id")
        return result.records, result.deleted

    assert apply((1, "a", "INSERT", 1), (2, "b", "INSERT", 2)) == (2, 0)
    assert apply((1, None, "DELETE", 3), (2, "bb", "UPDATE", 4), (3, "c", "INSERT", 5)) == (3, 1)
    assert apply((1, "a", "INSERT", 1)) == (0, 0)
    assert one.rows(IncrementalLoader(one.spark), one.path("target")) == [(2, "bb", 4), (3, "c", 5)]
    assert delta_ids(store, "target") == [2, 3]


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_of_two_loads_at_once_one_is_refused(one, monkeypatch, kind):
    """Both have read the position and both are about to write: the loser has left nothing, and runs again."""
    one.write("source", "id bigint", (1,))
    assert numbers(one, "target", kind).records == 1
    one.write("source", "id bigint", (2,))
    need, together = Checks.need, threading.Barrier(2, timeout=120)

    def meet(self, *rows):
        need(self, *rows)
        together.wait()

    def run(_):
        try:
            return numbers(one, "target", kind).records
        except PositionMoved:
            return "moved"

    with monkeypatch.context() as patched, ThreadPoolExecutor(2) as pool:
        patched.setattr(Checks, "need", meet)
        outcomes = list(pool.map(run, range(2)))
    assert sorted(outcomes, key=str) == [1, "moved"]
    assert ids(one, "target") == [1, 2]
    one.write("source", "id bigint", (3,))
    assert numbers(one, "target", kind).records == 1
    assert ids(one, "target") == [1, 2, 3]


def test_a_file_is_put_once_however_many_want_it(one, store):
    """The store alone decides: these know nothing of each other."""
    marks = [f"m{number}" for number in range(8)]
    together = threading.Barrier(len(marks), timeout=60)

    def put(mark):
        objects = Objects(spark=one.spark, path=one.path("target"))
        together.wait()
        return objects.put(one.path("target/1.json"), mark)

    with ThreadPoolExecutor(len(marks)) as pool:
        told = list(pool.map(put, marks))
    assert told.count(True) == 1, "several of them believe that they were first"
    assert client(store).cat_file("work/target/1.json").decode() == marks[told.index(True)]


def test_a_store_that_writes_over_what_is_there_is_refused(one, store, monkeypatch):
    called = s3fs.S3FileSystem._call_s3

    def without_conditions(self, method, *args, **named):
        named.pop("IfNoneMatch", None)
        return called(self, method, *args, **named)

    one.write("source", "id bigint", (1,))
    monkeypatch.setattr(s3fs.S3FileSystem, "_call_s3", without_conditions)
    with pytest.raises(WriteError, match="overwrites an existing file") as caught:
        numbers(one, "target")
    assert "Delta or Iceberg" in caught.value.hint
    assert not [name for name in client(store).find("work/target") if "tidegate_load" in name]


def test_a_wrong_login_is_told_at_once(one, store):
    one.write("source", "id bigint", (1,))
    with pytest.raises(WriteError, match="denied access") as caught:
        SequenceBasedLoader(one.spark).load_incremental(one.path("source"), "s3a://foreign/target", one.marks, "id")
    assert "credentials" in str(caught.value) + caught.value.hint
    assert SECRET not in str(caught.value) + caught.value.hint
