"""Credentials of the store that a REST catalog gives with each table: a project has no key of its own.

Nothing that a client of AWS would find by itself is set; the store takes no other keys than those of the catalog, each
below its own table alone.
"""

import json
import os
import time
import uuid

import pytest
from pyiceberg.catalog.rest import RestCatalog

from support.catalog_proxy import in_front_of
from support.lake_servers import REST_S3, rest_running
from support.object_store import ACCESS, REGION, SECRET
from support.shops import STREAMS, change, sqlite_shop
from support.vending import HEADER, SECRET_KEY, TOKEN, VENDED, Vending, door_of
from support.workspace import Workspace
from tidegate.core.ids import Target
from tidegate.core.outcome import Result
from tidegate.spark import jars

pytestmark = [pytest.mark.servers, pytest.mark.spark, pytest.mark.timeout(600)]

SMALL = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "1"}
CANARIES = (SECRET_KEY, TOKEN, SECRET)
ORDERS = {**STREAMS["orders"], "maintenance": {"expire_after": "1s", "keep": 1}}


@pytest.fixture
def door(s3_server, monkeypatch):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    bucket = s3_server.bucket("vended")
    with door_of(s3_server.endpoint) as made:
        yield made
    bucket.rename(bucket.with_name(f"vended-{uuid.uuid4().hex}"))


@pytest.fixture
def vending(door):
    return Vending(door=door)


@pytest.fixture
def catalog(tmp_path, door, vending):
    """The options of a catalog that gives credentials, as a project has them: where the store is, and no key."""
    own = {
        "CATALOG_IO__IMPL": "org.apache.iceberg.aws.s3.S3FileIO",
        "CATALOG_S3_ENDPOINT": door.server,
        "CATALOG_S3_PATH__STYLE__ACCESS": "true",
        "CATALOG_CLIENT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": ACCESS,
        "AWS_SECRET_ACCESS_KEY": SECRET,
    }
    folder = tmp_path / "rest"
    folder.mkdir()
    with rest_running(folder, "s3://vended/tables", jars.resolve(REST_S3), own) as url, in_front_of(url) as proxy:
        proxy.fault = vending
        store = {"s3.endpoint": door.endpoint, "s3.path-style-access": "true", "client.region": REGION}
        yield {"type": "rest", "uri": proxy.url, f"header.{HEADER}": VENDED, **store}


@pytest.fixture
def project_folder(tmp_path):
    found = tmp_path / "project"
    (found / "events").mkdir(parents=True)
    return found


@pytest.fixture
def shop(project_folder):
    return sqlite_shop(project_folder)


@pytest.fixture
def workspace(project_folder, shop, catalog):
    made = Workspace(folder=project_folder)
    write(made, shop, catalog)
    return made


def write(workspace, shop, catalog):
    logged = {
        "spark.eventLog.enabled": True,
        "spark.eventLog.dir": f"file://{workspace.folder / 'events'}",
        "spark.eventLog.compress": False,
    }
    workspace.write(
        {"orders": ORDERS},
        connections={"shop": {"url": shop.url}},
        lakes={"lake": {"format": "iceberg", "catalog": catalog}},
        spark={"master": "local[1]", "conf": {**SMALL, **logged}},
    )


@pytest.fixture
def orphan(s3_server):
    """Makes an old file that belongs to no version."""

    def made():
        file = next((s3_server.folder / "vended").rglob("data")) / "orphan.parquet"
        file.write_bytes(b"of a load that was killed")
        os.utime(file, (1, 1))
        time.sleep(1.1)  # and what is there now is old enough to expire
        return file

    return made


def rows(catalog):
    """What a reader sees that has no key either."""
    with RestCatalog("lake", **{name: value for name, value in catalog.items() if name != "type"}) as found:
        table = found.load_table(("shop", "orders"))
        assert set(table.metadata.refs) == {"main"}
        assert not [name for name in table.properties if "s3." in name]
        return sorted(
            tuple(row.values()) for row in table.scan(selected_fields=("id", "amount")).to_arrow().to_pylist()
        )


def of(shop):
    return shop.rows("select id, amount from orders order by id")


def loaded(project):
    (outcome,) = project.run().streams
    assert outcome.error is None, outcome.error
    return outcome.outcome, outcome.verified


@pytest.mark.parametrize("apart", [False, True], ids=["config", "storage-credentials"])
def test_a_lake_without_a_key(workspace, shop, catalog, vending, door, orphan, apart):
    vending.apart = apart
    with workspace.project() as project:
        assert loaded(project) == (Result.LOADED, True)
        assert rows(catalog) == of(shop)
        change(shop, "sqlite")
        assert loaded(project) == (Result.LOADED, True)
        assert [each.equal for each in project.verify().streams] == [True]
        file = orphan()
        (kept,) = project.maintain(force=True).streams
        assert kept.error is None, kept.error
        (table,) = kept.tables
        done = {str(each.step): each.did for each in table.steps}
        assert done["orphans"] == "1 file deleted"
        assert done["expire"] != "0 files deleted"
        assert not file.exists()
        assert table.after.older_files is not None, "the files were not listed"
        assert rows(catalog) == of(shop)
        assert loaded(project) == (Result.UNCHANGED, None)
        assert not door.refused
        assert vending.given

        # Keys that end between two statements: a table that has not changed is loaded again all the same.
        lake, target = project.lakes["lake"], Target(lake="lake", namespace=("shop",), table="orders")
        session = project.sessions.load_session()
        for _ in range(2):
            assert len(lake.read(session, target, None).collect()) == len(of(shop))
            door.end()
        # Keys that end with every commit: with the table come others.
        vending.ending, first = True, max(door.used)
        shop.sql("update orders set amount = 'again', updated_at = '2025-03-01' where id = 7")
        assert loaded(project) == (Result.LOADED, True)
    assert rows(catalog) == of(shop)
    assert max(door.used) > first + 1


def test_files_that_are_not_deleted_are_not_reported_as_deleted(workspace, shop, catalog, vending, orphan):
    """Iceberg deletes several at once without the credentials of their table, and names them all the same."""
    vending.apart = True
    write(workspace, shop, {**catalog, "s3.delete.batch-size": "250"})
    with workspace.project() as project:
        assert loaded(project) == (Result.LOADED, True)
        file = orphan()
        (kept,) = project.maintain(force=True).streams
    assert file.exists()
    assert kept.error.code == "write"
    assert "1 of 1 file that belong to no version of lake.shop.orders could not be deleted" in kept.error.message


@pytest.mark.parametrize("renewing", [False, True])
def test_keys_that_end_while_rows_are_written(workspace, shop, catalog, vending, door, renewing, tmp_path):
    with workspace.project() as project:
        assert loaded(project) == (Result.LOADED, True)
    before = rows(catalog)
    change(shop, "sqlite")
    slow = []

    def wait(request):
        if request.method == "PUT" and "/data/" in request.path and not slow:
            slow.append(request.path)
            time.sleep(door.seconds + 1)

    vending.renewing, door.then, door.seconds = renewing, wait, 8
    done = workspace.cli("run", "--json", "--log-level", "debug")
    assert slow, "no file was written: nothing was tested"
    (told,) = json.loads(done.stdout)["streams"]
    if renewing:
        assert vending.renewed
        assert told["error"] is None, told["error"]
        assert (told["outcome"], told["verified"]) == ("loaded", True)
    else:
        assert door.refused["ExpiredToken"]
        assert told["error"]["code"] == "write", told["error"]
        assert "an object store denied access" in told["error"]["message"]
        assert rows(catalog) == before
    door.seconds = 3_600
    again = workspace.cli("run", "--json")
    assert json.loads(again.stdout)["streams"][0]["error"] is None
    assert rows(catalog) == of(shop)
    says_no_secret(tmp_path, workspace, done, again)


def test_no_key_leaves_the_project(workspace, shop, tmp_path, door):
    """Through a first load, whatever shows something, and a store that takes the keys no more."""
    shown = (
        ("run", "--log-level", "debug"),
        ("plan", "--json"),
        ("status", "--json"),
        ("history", "orders", "--json"),
        ("show", "orders"),
        ("proof", "orders"),
        ("metrics",),
        ("state", "show", "orders"),
        ("doctor", "--json"),
        ("maintain", "--force", "--json"),
    )
    said = [workspace.cli(*words) for words in shown]
    assert said[0].returncode == 0, said[0].stderr[-3000:]
    change(shop, "sqlite")
    door.seconds = -1
    refused = workspace.cli("run", "--json", "--log-level", "debug")
    (told,) = json.loads(refused.stdout)["streams"]
    assert told["error"]["code"] == "write"
    assert "denied access" in told["error"]["message"], told["error"]
    says_no_secret(tmp_path, workspace, refused, *said)


def says_no_secret(tmp_path, workspace, *said):
    for each in said:
        assert not [secret for secret in CANARIES if secret in each.stdout + each.stderr], each.args
    files = [path for path in workspace.folder.rglob("*") if path.is_file()]
    assert any(b"SparkListenerApplicationStart" in path.read_bytes() for path in files)
    kept = [*files, *(path for path in (tmp_path / "rest").rglob("*") if path.is_file())]
    assert not [path for path in kept if any(secret.encode() in path.read_bytes() for secret in CANARIES)]
