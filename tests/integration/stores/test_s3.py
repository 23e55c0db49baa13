"""Files and lakes in a real S3 server, with nothing set but what a user would set."""

import json
import uuid
from urllib.parse import quote

import pytest
import s3fs
from deltalake import DeltaTable, QueryBuilder
from pyiceberg.catalog.sql import SqlCatalog

from support.object_store import ACCESS, REGION, SECRET
from support.workspace import Workspace
from tidegate.core.outcome import Result

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.timeout(600)]

SMALL = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "1"}
EVENTS = {
    "source": {"path": "s3://landing/in/*.csv", "columns": {"id": "bigint", "v": "text"}, "file_name": "file"},
    "target": "lake.shop.events",
    "key": ["id"],
    "strategy": {"kind": "files"},
    "write": "merge",
}
COPIES = {
    "source": {"iceberg": "lake.shop.events"},
    "target": "delta.shop.copies",
    "key": ["id"],
    "strategy": {"kind": "table_changes"},
    "write": "merge",
}


def lakes(store, **login):
    named = {"s3.endpoint": store.endpoint, "client.region": REGION, "s3.path-style-access": "true"}
    options = {"type": "sqlite", **named, **login}
    return {
        "lake": {"format": "iceberg", "warehouse": "s3://lakehouse/iceberg", "catalog": options},
        "delta": {"format": "delta", "warehouse": "s3a://lakehouse/delta"},
    }


def put(store, name, *rows):
    with s3fs.S3FileSystem(use_listings_cache=False).open(f"landing/in/{name}", "w") as file:
        file.write("\n".join(["id,v", *rows]) + "\n")


def iceberg_rows(workspace, store, table):
    catalog = SqlCatalog(
        "lake",
        uri=f"sqlite:///{workspace.folder / '.tidegate' / 'catalog.db'}",
        **{"s3.endpoint": store.endpoint, "s3.access-key-id": ACCESS, "s3.secret-access-key": SECRET},
    )
    rows = catalog.load_table(("shop", table)).scan().to_arrow().to_pylist()
    return sorted((row["id"], row["v"], row["file"]) for row in rows)


def delta_rows(store, location="s3://finance/copies"):
    options = {"AWS_ENDPOINT_URL": store.endpoint, "AWS_ALLOW_HTTP": "true", "AWS_REGION": REGION}
    table = DeltaTable(location, storage_options=options)
    found = QueryBuilder().register("t", table).execute("SELECT id, v, file FROM t").read_all()
    return sorted(tuple(row.values()) for row in found.to_struct_array().to_pylist())


@pytest.fixture
def buckets(s3):
    made = [s3.bucket(name) for name in ("landing", "lakehouse", "finance")]
    yield s3
    for bucket in made:
        bucket.rename(bucket.with_name(f"{bucket.name}-{uuid.uuid4().hex}"))


def test_files_are_listed_and_read_and_lakes_are_written_in_s3(tmp_path, buckets):
    """Into the warehouse of the lake, and into a bucket of their own."""
    workspace, own = Workspace(folder=tmp_path), buckets.folder / "finance"
    spark = {"master": "local[1]", "conf": {**SMALL, **buckets.hadoop}}
    (own / "other.parquet").write_text("somebody else's")
    copies = {**COPIES, "target": {"table": "delta.shop.copies", "location": "s3a://finance/copies"}}
    apart = {**EVENTS, "target": {"table": "lake.shop.apart", "location": "s3://finance/apart"}}
    streams = {"events": EVENTS, "apart": apart, "copies": copies}
    workspace.write(streams, connections={}, lakes=lakes(buckets), spark=spark)
    put(buckets, "a.csv", "1,one", "2,two")
    put(buckets, "b c+d%.csv", "3,three")
    with workspace.project() as project:

        def run():
            outcomes = project.run().streams
            assert [outcome.error for outcome in outcomes] == [None] * 3
            return {outcome.stream: (outcome.outcome, outcome.rows_read) for outcome in outcomes}

        first = [(1, "one", "a.csv"), (2, "two", "a.csv"), (3, "three", "b c+d%.csv")]
        assert run() == dict.fromkeys(streams, (Result.LOADED, 3))
        assert [iceberg_rows(workspace, buckets, name) for name in ("events", "apart")] == [first, first]
        assert delta_rows(buckets) == first
        # One file comes, one gets another content, and one is written anew as it was.
        put(buckets, "c.csv", "4,four")
        put(buckets, "a.csv", "1,uno")
        put(buckets, "b c+d%.csv", "3,three")
        loaded = (Result.LOADED, 2)
        assert run() == {"events": loaded, "apart": loaded, "copies": (Result.LOADED, 3)}
        assert [each.error for each in project.maintain(force=True).streams] == [None] * 3
        second = [(1, "uno", "a.csv"), (3, "three", "b c+d%.csv"), (4, "four", "c.csv")]
        assert [iceberg_rows(workspace, buckets, name) for name in ("events", "apart")] == [second, second]
        assert delta_rows(buckets) == second
    found = {path.name for path in own.iterdir() if not path.name.startswith(".")}
    assert found == {"apart", "copies", "other.parquet"}
    assert {path.name for path in (buckets.folder / "lakehouse").rglob("*")} & {"apart", "copies"} == set()
    with workspace.project() as project:
        report = project.run()
        assert {outcome.outcome for outcome in report.streams} == {Result.UNCHANGED}
        assert not any(outcome.spark_started for outcome in report.streams)


def test_a_login_is_in_no_output_record_or_file(tmp_path, buckets):
    log = tmp_path / "spark-events"
    log.mkdir()
    login = {"s3.access-key-id": "${S3_ACCESS}", "s3.secret-access-key": "${S3_SECRET}"}
    hadoop = {"spark.hadoop.fs.s3a.access.key": "${S3_ACCESS}", "spark.hadoop.fs.s3a.secret.key": "${S3_SECRET}"}
    logged = {"spark.eventLog.enabled": True, "spark.eventLog.dir": f"file://{log}", "spark.eventLog.compress": False}
    workspace = Workspace(folder=tmp_path)
    workspace.write(
        {"events": EVENTS, "copies": COPIES},
        connections={},
        lakes=lakes(buckets, **login),
        spark={"master": "local[1]", "conf": {**SMALL, **buckets.hadoop, **hadoop, **logged}},
    )
    put(buckets, "a.csv", "1,one", "2,two")

    def tidegate(*words, secret=SECRET):
        given = {"S3_ACCESS": ACCESS, "S3_SECRET": secret, "AWS_SECRET_ACCESS_KEY": secret}
        done = workspace.cli(*words, "--json", "--log-level", "debug", env=given)
        assert not leaks((done.stdout + done.stderr).encode()), words
        return done

    assert tidegate("plan", "events").returncode == 0
    done = tidegate("run")
    assert [stream["rows_read"] for stream in json.loads(done.stdout)["streams"]] == [2, 2], done.stderr[-3000:]
    for words in (("history", "events"), ("status",), ("state", "show", "events"), ("plan", "copies")):
        assert tidegate(*words).returncode == 0
    # The store refuses the login: what it says of that must not bring the login along.
    put(buckets, "b.csv", "3,three")
    refused = json.loads(tidegate("run", secret=f"{SECRET}x").stdout)["streams"]
    for stream in refused:
        assert (stream["error"]["code"], stream["spark_started"]) == ("write", False)
        assert "denied access" in stream["error"]["message"]
    looked = [path for path in (*tmp_path.rglob("*"), *buckets.folder.rglob("*")) if path.is_file()]
    assert not [path for path in looked if leaks(path.read_bytes())]
    assert any(b"SparkListenerApplicationStart" in path.read_bytes() for path in looked)
    assert [path for path in looked if path.name.endswith(".metadata.json")]
    assert [path for path in looked if path.parent.name == "_delta_log"]


@pytest.mark.parametrize(("lake", "code"), [("lake", "write"), ("delta", "source")])
def test_a_wrong_login_ends_a_first_load_at_once(tmp_path, buckets, lake, code):
    """Files are listed by the login of the environment. Iceberg has its own; Spark's is used to read the files, too."""
    wrong = {"s3.access-key-id": ACCESS, "s3.secret-access-key": f"{SECRET}x"} if lake == "lake" else {}
    hadoop = {"spark.hadoop.fs.s3a.access.key": ACCESS, "spark.hadoop.fs.s3a.secret.key": f"{SECRET}x"}
    conf = {**SMALL, **buckets.hadoop, **(hadoop if lake == "delta" else {})}
    workspace = Workspace(folder=tmp_path)
    stream = {**EVENTS, "target": f"{lake}.shop.events"}
    spark = {"master": "local[1]", "conf": conf}
    workspace.write({"events": stream}, connections={}, lakes=lakes(buckets, **wrong), spark=spark)
    put(buckets, "a.csv", "1,one")
    done = workspace.cli("run", "--json")
    (told,) = json.loads(done.stdout)["streams"]
    assert told["error"]["code"] == code, told["error"]
    assert "an object store denied access" in told["error"]["message"]
    assert "environment, profile" in told["error"]["hint"]
    assert not leaks((done.stdout + done.stderr).encode())


def leaks(data):
    return [form for form in (SECRET, quote(SECRET, safe=""), quote(SECRET)) if form.encode() in data]
