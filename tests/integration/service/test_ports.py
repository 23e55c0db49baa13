"""What can be reached from another machine: nothing, unless somebody asks for it."""

import json
import os
import socket
import subprocess
import sys
import time

import pytest

from support.listening import listening
from support.workspace import SqliteShop, Workspace

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.timeout(300),
    pytest.mark.skipif(sys.platform != "linux", reason="the service needs Linux"),
]
LOOPBACK = {"127.0.0.1", "::1"}
SEEN = """
import json, os
from support.listening import listening
from tidegate.spark.session import Sessions
with Sessions(master="local[1]", conf={"spark.driver.memory": "1g"}) as sessions:
    session = sessions.load_session()
    assert session.range(9).repartition(3).count() == 9
    manager = session.sparkContext._jvm.org.apache.spark.SparkEnv.get().securityManager()
    print(json.dumps([manager.isAuthenticationEnabled(), sorted(listening(os.getpid()))]))
"""


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))


def test_a_socket_on_every_address_is_seen():
    """A check that cannot fail would prove nothing."""
    with socket.create_server(("0.0.0.0", 0)) as open_to_all:
        assert ("0.0.0.0", open_to_all.getsockname()[1]) in listening(os.getpid())
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as own:
        assert ("::1", own.getsockname()[1]) in listening(os.getpid())


def test_a_local_spark_listens_on_loopback_and_wants_to_hear_its_secret():
    said = subprocess.run([sys.executable, "-c", SEEN], capture_output=True, text=True, check=True, timeout=200)
    authenticates, ports = json.loads(said.stdout)
    assert authenticates is True
    assert len(ports) >= 3, "gateway, RPC and blocks"
    assert {address for address, _ in ports} <= LOOPBACK


def test_a_service_listens_on_loopback(tmp_path):
    shop = SqliteShop(path=tmp_path / "shop.db")
    shop.sql("create table orders (id integer primary key not null)", "insert into orders values (1)")
    stream = {"source": {"connection": "shop", "table": "orders"}, "target": "lake.s.o", "strategy": "full"}
    Workspace(folder=tmp_path).write(
        {"orders": {**stream, "write": "replace", "schedule": {"every": "1s"}}},
        connections={"shop": {"url": shop.url}},
        spark={"master": "local[1]", "conf": {"spark.driver.memory": "1g"}},
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "tidegate", "serve", "--port", str(port)]
    with (
        (tmp_path / "serve.log").open("wb") as log,
        subprocess.Popen(words, cwd=tmp_path, stdout=log, stderr=log) as service,
    ):
        try:
            found, deadline = set(), time.monotonic() + 120
            while time.monotonic() < deadline and not (tmp_path / "warehouse" / "s" / "o").exists():
                found |= listening(service.pid)
                time.sleep(0.2)
            found |= listening(service.pid)
        finally:
            service.terminate()
    assert (tmp_path / "warehouse" / "s" / "o").exists(), (tmp_path / "serve.log").read_text()
    assert ("127.0.0.1", port) in found
    assert len(found) >= 4, "the dashboard, and gateway, RPC and blocks of Spark"
    assert {address for address, _ in found} <= LOOPBACK
