"""A real Nessie server, whose REST catalog keeps neither branches nor earlier snapshots of tables."""

import itertools
import json

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog

from support.nessie import nessie_running
from support.object_store import ACCESS, REGION, SECRET
from support.shops import STREAMS, change, sqlite_shop
from support.vending import HEADER, VENDED
from support.workspace import Workspace

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.timeout(600)]

LOGIN = {"AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": REGION}
SMALL = {"master": "local[1]", "conf": {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "1"}}
BUCKET = "nessie"
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def url(s3_server, tmp_path_factory):
    s3_server.bucket(BUCKET)
    with nessie_running(tmp_path_factory.mktemp("nessie"), s3_server, BUCKET) as found:
        yield found


@pytest.fixture
def options(url, s3_server):
    # Nessie signs requests unless it is asked for credentials; Iceberg 1.12 asks for signatures elsewhere and gets 404.
    unsigned = {f"header.{HEADER}": VENDED}
    return {"uri": url, "s3.endpoint": s3_server.endpoint, "s3.path-style-access": "true", **unsigned}


@pytest.fixture
def nessie(options):
    login = {"s3.access-key-id": ACCESS, "s3.secret-access-key": SECRET, "s3.region": REGION}
    with RestCatalog("lake", **options, **login) as found:
        yield found


@pytest.fixture
def namespace():
    return f"n{next(NUMBERS)}"


@pytest.fixture
def shop(tmp_path):
    return sqlite_shop(tmp_path)


@pytest.fixture
def lakes(options):
    return {
        "lake": {"format": "iceberg", "catalog": {"type": "rest", **options}, "warehouse": f"s3://{BUCKET}/tables"},
        "own": {"format": "iceberg"},
    }


@pytest.fixture
def workspace(tmp_path, shop, lakes, namespace):
    made = Workspace(folder=tmp_path)
    orders = {**STREAMS["orders"], "uid": "0123456789abcdef", "target": f"lake.{namespace}.orders"}
    made.write({"orders": orders}, connections={"shop": {"url": shop.url}}, lakes=lakes, spark=SMALL)
    return made


def refused(workspace, *words):
    """What the command says of a stream, which it refuses."""
    (told,) = json.loads(workspace.cli(*words, "--json", env=LOGIN).stdout)["streams"]
    assert told["error"]["code"] == "incompatible", told["error"]
    assert "ignores branches of tables, so rows would be visible before they are verified" in told["error"]["message"]
    assert "another catalog" in told["error"]["hint"]
    return told


def test_a_load_is_refused_before_anything_is_made(workspace, nessie, namespace, s3_server):
    before = sorted((s3_server.folder / BUCKET).rglob("*"))
    assert "a Nessie server" in refused(workspace, "plan")["error"]["message"]
    assert refused(workspace, "run")["spark_started"] is False
    found = {each["name"]: each for each in json.loads(workspace.cli("doctor", "--json", env=LOGIN).stdout)["findings"]}
    assert (found["lake lake"]["ok"], found["loads into lake"]["ok"]) == (True, False)
    assert not nessie.namespace_exists(namespace)
    assert sorted((s3_server.folder / BUCKET).rglob("*")) == before
    nessie.create_namespace(namespace)
    table = nessie.create_table((namespace, "orders"), schema=pa.schema([("id", pa.int64())]))
    refused(workspace, "run")
    assert table.refresh().metadata.snapshots == []


def test_a_table_with_a_position_stays_as_it_is(workspace, shop, nessie, namespace, lakes):
    """Such as one that was registered in Nessie after loads into it."""
    orders = {**STREAMS["orders"], "uid": "0123456789abcdef", "target": f"own.{namespace}.orders"}
    workspace.write({"orders": orders}, connections={"shop": {"url": shop.url}}, lakes=lakes, spark=SMALL)
    assert workspace.cli("run", env=LOGIN).returncode == 0
    with workspace.project() as project:
        own = project.lakes["own"]._where.table(project.streams()[0].target)
    marks = own.current_snapshot().summary.additional_properties
    nessie.create_namespace(namespace)
    table = nessie.create_table((namespace, "orders"), schema=own.schema())
    rows = own.scan().to_arrow()
    table.append(rows, snapshot_properties={name: value for name, value in marks.items() if "tidegate" in name})
    before = table.refresh().metadata.current_snapshot_id

    workspace.forget_registry()
    orders["target"] = f"lake.{namespace}.orders"
    workspace.write({"orders": orders}, connections={"shop": {"url": shop.url}}, lakes=lakes, spark=SMALL)
    change(shop, "sqlite")
    refused(workspace, "run")
    assert table.refresh().metadata.current_snapshot_id == before
    assert table.scan().to_arrow().num_rows == rows.num_rows


def test_a_table_can_be_a_source(tmp_path, lakes, nessie, namespace):
    nessie.create_namespace(namespace)
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "v": ["one", "two"]})
    table = nessie.create_table((namespace, "t"), schema=rows.schema)
    table.append(rows)
    stream = {"source": {"iceberg": f"lake.{namespace}.t"}, "key": ["id"], "write": "merge"}
    kinds = ("table_changes", "snapshot_diff")
    streams = {kind: {**stream, "target": f"own.shop.{kind}", "strategy": kind} for kind in kinds}
    workspace = Workspace(folder=tmp_path)
    workspace.write(streams, connections={}, lakes=lakes, spark=SMALL)

    def ran():
        told = json.loads(workspace.cli("run", "--json", env=LOGIN).stdout)["streams"]
        assert [each["error"] for each in told] == [None, None]
        found = {each["outcome"] for each in told}
        with workspace.project() as project:
            for each in project.streams():
                own = project.lakes["own"]._where.table(each.target)
                rows = own.scan(selected_fields=("id", "v")).to_arrow().to_pylist()
                found.add(tuple(sorted(tuple(row.values()) for row in rows)))
        return found

    assert ran() == {"loaded", ((1, "one"), (2, "two"))}
    table.refresh().append(pa.table({"id": pa.array([3], pa.int64()), "v": ["three"]}))
    table.refresh().delete("id = 1")
    assert ran() == {"loaded", ((2, "two"), (3, "three"))}
    assert ran() == {"unchanged", ((2, "two"), (3, "three"))}


def test_why(nessie, namespace):
    """See docs/adr/0132; where this fails, a newer server may take loads."""
    nessie.create_namespace(namespace)
    rows = [pa.table({"id": pa.array([number], pa.int64())}) for number in range(3)]
    name = (namespace, "t")
    both = [nessie.create_table(name, schema=rows[0].schema), nessie.load_table(name)]
    for table, one in zip(both, rows, strict=False):
        table.append(one)
    assert nessie.load_table(name).scan().to_arrow()["id"].to_pylist() == [1], "the second of two first loads"
    table = nessie.load_table(name)
    table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, "b").commit()
    assert set(nessie.load_table(name).metadata.refs) == {"main"}
    nessie.load_table(name).append(rows[2])
    assert len(nessie.load_table(name).metadata.snapshots) == 1
    assert nessie.load_table(name).current_snapshot().parent_snapshot_id is None
