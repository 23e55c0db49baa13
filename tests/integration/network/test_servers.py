"""The server of the source, of the catalog or of the store dies or stands still in the middle of a load."""

from functools import partial

import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog

from integration.cli.terminal import Terminal
from integration.network.conftest import ALL, FIRST, NUMBERS, Shop, at, exact_again, run, table_ids
from support.lake_servers import free_port, rest_server, running
from support.object_store import ACCESS, REGION, SECRET, program
from support.restarted import Restarted
from support.workspace import Workspace
from tidegate.core.outcome import Result
from tidegate.engine.events import Moment, Stage
from tidegate.spark import jars

pytestmark = [pytest.mark.spark, pytest.mark.postgres, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def catalog_server(tmp_path):
    folder = tmp_path / "rest"
    folder.mkdir()
    command, settings, port = rest_server(folder, f"file://{folder / 'warehouse'}")
    server = Restarted(partial(running, command, folder, settings, port))
    server.url = f"http://127.0.0.1:{port}"
    yield server
    server.end()


@pytest.mark.parametrize("stage", [Stage.DETECT, Stage.READ, Stage.WRITE, Stage.ADVANCE])
@pytest.mark.parametrize("way", ["kill", "stall"])
def test_a_rest_catalog(project, shop, spark, catalog_server, stage, way):
    lakes = {"lake": {"catalog": {"type": "rest", "uri": catalog_server.url}, "warehouse": ""}}
    workspace = project(spark, shop, connection=shop.url, lakes=lakes)
    outcome = run(workspace, spark, on_event=at(stage, Moment.START, getattr(catalog_server, way)))
    if way == "kill":
        assert outcome.error.code in ("write", "commit_unknown"), outcome.error
        assert "catalog" in outcome.error.message or outcome.error.code == "commit_unknown"
        catalog_server.start()
    else:
        assert outcome.error is None, outcome.error
    again = run(workspace, spark)
    assert again.error is None, again.error
    with RestCatalog("lake", uri=catalog_server.url) as catalog:
        table = catalog.load_table(("shop", "numbers"))
        assert sorted(table.scan().to_arrow().column("id").to_pylist()) == list(range(1, ALL + 1))
    assert run(workspace, spark).outcome is Result.UNCHANGED


@pytest.mark.parametrize("stage", [Stage.DETECT, Stage.READ, Stage.CHECK])
@pytest.mark.parametrize("way", ["kill", "stall"])
def test_mariadb(project, own_shop, own_mariadb, spark, stage, way):
    workspace = project(spark, own_shop, connection=own_shop.url)
    outcome = run(workspace, spark, on_event=at(stage, Moment.START, getattr(own_mariadb, way)))
    if way == "kill":
        if outcome.error:
            assert outcome.error.code == "source_unavailable", outcome.error
            assert table_ids(workspace) == list(range(1, FIRST + 1))
        own_mariadb.start()
    else:
        assert outcome.error is None, outcome.error
    exact_again(workspace, spark)


@pytest.fixture
def own_mariadb():
    from support.mariadb import MariadbServer  # pytest takes it as a plugin elsewhere, before any other import

    server = MariadbServer.new(innodb_flush_log_at_trx_commit="1")  # what is committed survives
    yield server
    server.drop()


@pytest.fixture
def own_shop(own_mariadb):
    name = own_mariadb.create_database()

    def execute(statement):
        own_mariadb.run(statement, database=name)

    execute("create table numbers (id bigint auto_increment primary key, name text)")
    made = Shop(url=own_mariadb.url(name), run=execute)
    made.add(FIRST)
    return made


@pytest.mark.servers
@pytest.mark.parametrize("way", ["kill", "stall"])
@pytest.mark.parametrize("after", [": plan ", ": check "])
def test_a_store_of_objects(tmp_path, shop, capfd, monkeypatch, way, after):
    jars.resolve(jars.S3A)
    folder, port = tmp_path / "s3", free_port()
    (folder / "buckets" / "lakehouse").mkdir(parents=True)
    login = {"ROOT_ACCESS_KEY": ACCESS, "ROOT_SECRET_KEY": SECRET}
    command = [str(program()), "--port", f"127.0.0.1:{port}", "--region", REGION, "posix", str(folder / "buckets")]
    server = Restarted(partial(running, command, folder, login, port))
    s3 = {"s3.endpoint": f"http://127.0.0.1:{port}", "client.region": REGION, "s3.path-style-access": "true"}
    for name, value in {"AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": REGION}.items():
        monkeypatch.setenv(name, value)
    workspace = Workspace(folder=tmp_path)
    lake = {"format": "iceberg", "warehouse": "s3://lakehouse/t", "catalog": {"type": "sqlite", **s3}}
    spark = {"master": "local[1]", "conf": {"spark.driver.memory": "1g"}}
    workspace.write({"numbers": NUMBERS}, connections={"shop": {"url": shop.url}}, lakes={"lake": lake}, spark=spark)
    tidegate = Terminal(folder=tmp_path, capfd=capfd)
    try:
        assert tidegate.process("run").exit_code == 0
        shop.add(ALL - FIRST)
        process = tidegate.start("run")
        process.reach(after)
        getattr(server, way)()
        said = process.end(timeout=280)
        if way == "kill":
            said.refuses("write", 1, "object store" if after == ": check " else "s3://lakehouse", "tidegate")
            server.start()
        else:
            assert said.exit_code == 0, said.everything
        assert tidegate.process("run").exit_code == 0
        catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path / '.tidegate' / 'catalog.db'}", **s3)
        with catalog:
            found = catalog.load_table(("shop", "numbers")).scan().to_arrow().column("id").to_pylist()
        assert sorted(found) == list(range(1, ALL + 1))
    finally:
        server.end()
