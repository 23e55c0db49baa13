"""Several writers of one Delta table in S3: no commit replaces another, as a reader that is not Spark sees it."""

import http.server
import json
import re
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from deltalake import DeltaTable, QueryBuilder
from pyarrow.fs import FileSystem

from support.http_server import serving
from support.network import CutReply, between
from support.object_store import REGION
from support.workspace import SqliteShop, Workspace

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.timeout(600)]

SMALL = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
}
NUMBERS = {
    "source": {"connection": "shop", "table": "numbers"},
    "target": "lake.shop.numbers",
    "strategy": {"kind": "sequence", "column": "id"},
    "write": "append",
}
TABLE = "s3://lake/t/shop/numbers"


@pytest.fixture
def store(s3):
    made = s3.bucket("lake")
    yield s3
    made.rename(made.with_name(f"lake-{uuid.uuid4().hex}"))


@pytest.fixture
def shop(tmp_path):
    shop = SqliteShop(path=tmp_path / "shop.db")
    shop.sql(
        "create table numbers (id integer primary key autoincrement, name text)",
        "insert into numbers values (1, 'a'), (2, 'b')",
    )
    return shop


def workspace(folder, shop, store, port, **conf):
    """A project with a registry of its own, whose Spark reaches the store through that port."""
    folder.mkdir(exist_ok=True)
    made = Workspace(folder=folder)
    hadoop = {**store.hadoop, "spark.hadoop.fs.s3a.endpoint": f"http://127.0.0.1:{port}"}
    made.write(
        {"numbers": NUMBERS},
        connections={"shop": {"url": shop.url}},
        lakes={"lake": {"format": "delta", "warehouse": "s3a://lake/t"}},
        spark={"master": "local[1]", "conf": {**SMALL, **hadoop, **conf}},
    )
    return made


def server_port(store):
    return int(store.endpoint.rpartition(":")[2])


def table(store):
    options = {"AWS_ENDPOINT_URL": store.endpoint, "AWS_ALLOW_HTTP": "true", "AWS_REGION": REGION}
    return DeltaTable(TABLE, storage_options=options)


def ids(store):
    found = QueryBuilder().register("t", table(store)).execute("SELECT id FROM t").read_all()
    return sorted(row["id"] for row in found.to_struct_array().to_pylist())


def run(workspace):
    done = workspace.cli("run", "--json")
    (told,) = json.loads(done.stdout)["streams"]
    return told, done


def commit_of(version):
    return re.compile(rb"PUT \S*_delta_log/%020d\.json" % version)


def test_no_commit_is_lost_or_made_twice(tmp_path, store, shop):
    with between(server_port(store)) as network:
        projects = [workspace(tmp_path / name, shop, store, network.port) for name in "ab"]
        assert run(projects[0])[0]["error"] is None

        # delta-rs commits the very version that the load is about to put, after Spark saw that it was free.
        shop.sql("insert into numbers values (3, 'c')")
        mine, met = commit_of(table(store).version() + 1), []

        def deleted_before(sent):
            if sent.to_server and not met and mine.search(sent.data):
                met.append(table(store).delete("id = 1"))
            return sent.data

        network.fault = deleted_before
        told, done = run(projects[0])
        assert met, done.stderr
        assert (told["error"], ids(store)) == (None, [2, 3])

        # The reply is lost: Hadoop asks again, is told that the version exists, and finds that it is its own.
        shop.sql("insert into numbers values (4, 'd')")
        before = table(store).version()
        network.fault = CutReply(request=f"_delta_log/{before + 1:020}.json HTTP".encode(), reply=b"HTTP/1.1 200")
        told, done = run(projects[0])
        assert network.fault.lost == 1, done.stderr
        assert told["error"] is None, told
        assert "attempt 2" not in done.stderr
        assert (ids(store), table(store).version()) == ([2, 3, 4], before + 1)

        # Two Sparks hold the same number of the same stream, with registries of their own, and meet before the store.
        shop.sql("insert into numbers values (5, 'e'), (6, 'f')")
        mine, both = commit_of(before + 2), threading.Barrier(2, timeout=120)

        def meeting(sent):
            if sent.to_server and mine.search(sent.data) and not both.broken:
                both.wait()
            return sent.data

        network.fault = meeting
        with ThreadPoolExecutor(2) as pool:
            told = [each[0] for each in pool.map(run, projects)]
        assert not both.broken
        assert ids(store) == [2, 3, 4, 5, 6]
        assert {each["error"]["code"] for each in told if each["error"]} <= {"position_moved"}
        assert [each["outcome"] for each in told].count("loaded") == 1, "one of the two was lost, and said otherwise"
        network.restore()
        assert [run(project)[0]["error"] for project in projects] == [None, None]
        assert ids(store) == [2, 3, 4, 5, 6]


def test_a_first_load_that_was_killed_before_its_first_commit_is_done_again(tmp_path, shop, store):
    # What Hadoop's mkdirs leaves in S3, which Delta takes for a table.
    files, place = FileSystem.from_uri(TABLE)
    files.create_dir(f"{place}/_delta_log/_staged_commits")
    told, done = run(workspace(tmp_path / "p", shop, store, server_port(store)))
    assert told["error"] is None, done.stderr
    assert ids(store) == [1, 2]


def test_a_store_that_replaces_objects_is_refused(tmp_path, shop, s3):
    with serving(Forgetful) as port:
        project = workspace(tmp_path / "p", shop, s3, port)
        done = project.cli("run", "--json", env={"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"})
    (told,) = json.loads(done.stdout)["streams"]
    assert told["error"]["code"] == "write", told
    assert "overwrites an existing file although the request forbids it (If-None-Match)" in told["error"]["message"]
    assert "spark.delta.logStore.s3a.impl" in told["error"]["hint"]


class Forgetful(http.server.BaseHTTPRequestHandler):
    """A store that takes every object, whatever the request says, and finds none."""

    protocol_version = "HTTP/1.1"

    def do_PUT(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(200, b"", ETag='"d41d8cd98f00b204e9800998ecf8427e"')

    def do_HEAD(self):
        self.answer(404, b"")

    def do_GET(self):
        listing = b"<ListBucketResult><Name>lake</Name><KeyCount>0</KeyCount><IsTruncated>false</IsTruncated>"
        missing = b"<Error><Code>NoSuchKey</Code></Error>"
        found = "list-type=2" in self.path
        self.answer(200 if found else 404, listing + b"</ListBucketResult>" if found else missing)

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(200, b"<DeleteResult></DeleteResult>")

    def do_DELETE(self):
        self.answer(204, b"")

    def answer(self, status, body, **headers):
        self.send_response(status)
        for name, value in {"Content-Length": len(body), "Content-Type": "application/xml", **headers}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Writes no log."""
