"""The server of the source, of the catalog or of the store dies or stands still in the middle of a load."""

from functools import partial

import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog

from integration.cli.terminal import Terminal
from integration.network.conftest import NUMBERS, Shop, at, run, settled, shown, shown_by
from support.lake_servers import free_port, rest_server, running
from support.object_store import ACCESS, REGION, SECRET, program
from support.restarted import Restarted
from support.workspace import Workspace
from tidegate.engine.events import Moment, Stage
from tidegate.spark import jars

pytestmark = [pytest.mark.spark, pytest.mark.postgres, pytest.mark.timeout(600)]


def test_a_rest_catalog(project, shop, spark, tmp_path):
    folder = tmp_path / "rest"
    folder.mkdir()
    command, settings, port = rest_server(folder, f"file://{folder / 'warehouse'}")
    server, url = Restarted(partial(running, command, folder, settings, port)), f"http://127.0.0.1:{port}"

    def read():
        with RestCatalog("lake", uri=url) as catalog:
            return shown(catalog.load_table(("shop", "numbers")))

    try:
        lakes = {"lake": {"catalog": {"type": "rest", "uri": url}, "warehouse": ""}}
        workspace = project(spark, shop, connection=shop.url, lakes=lakes)
        for stage in (Stage.DETECT, Stage.READ, Stage.WRITE, Stage.ADVANCE):
            for way in (server.kill, server.stall):
                shop.add()
                error = run(workspace, spark, on_event=at(stage, Moment.START, way)).error
                if way == server.stall:
                    assert error is None, (stage, error)
                elif error.code != "commit_unknown":
                    assert (error.code, "catalog" in error.message) == ("write", True), (stage, error)
                server.restart()
                settled(workspace, spark, shop, read)
    finally:
        server.end()


def test_mariadb(project, spark):
    from support.mariadb import MariadbServer  # pytest takes it as a plugin elsewhere, before any other import

    server = MariadbServer.new(innodb_flush_log_at_trx_commit="1")  # what is committed survives
    try:
        name = server.create_database()
        shop = Shop(url=server.url(name), run=partial(server.run, database=name))
        shop.run("create table numbers (id bigint auto_increment primary key, name text)")
        shop.add()
        workspace = project(spark, shop, connection=shop.url)
        for stage in (Stage.DETECT, Stage.READ, Stage.CHECK):
            for way in (server.kill, server.stall):
                before = shop.ids
                shop.add()
                error = run(workspace, spark, on_event=at(stage, Moment.START, way)).error
                if way == server.kill:
                    if error:
                        assert error.code == "source_unavailable", (stage, error)
                        assert shown_by(workspace)[0] == before
                    server.start()
                else:
                    assert error is None, (stage, error)
                settled(workspace, spark, shop)
    finally:
        server.drop()


@pytest.mark.servers
def test_a_store_of_objects(tmp_path, shop, capfd, monkeypatch):
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
        for way, after in (("kill", ": plan "), ("kill", ": check "), ("stall", ": check ")):
            shop.add()
            process = tidegate.start("run")
            process.reach(after)
            getattr(server, way)()
            said = process.end(timeout=280)
            if way == "stall":
                assert said.exit_code == 0, said.everything
                continue
            said.refuses("write", 1, "object store" if after == ": check " else "s3://lakehouse", "tidegate")
            server.start()
        assert tidegate.process("run").exit_code == 0
        with SqlCatalog("lake", uri=f"sqlite:///{tmp_path / '.tidegate' / 'catalog.db'}", **s3) as catalog:
            assert shown(catalog.load_table(("shop", "numbers"))) == (shop.ids, {"main"})
    finally:
        server.end()
