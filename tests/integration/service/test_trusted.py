"""`--trust-project` is one of the command that states it, also where a service runs the command."""

import os
import subprocess
import sys
import time

import pytest

from support.workspace import SqliteShop, Workspace
from tidegate.service.place import Place

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.timeout(400),
    pytest.mark.skipif(sys.platform != "linux", reason="the service needs Linux"),
]
TIDEGATE = [sys.executable, "-m", "tidegate"]
CODE = {"spark.hadoop.fs.odd.impl": "org.example.OddFileSystem"}


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    monkeypatch.delenv("TIDEGATE_TRUST_PROJECT", raising=False)
    shop = SqliteShop(path=tmp_path / "shop.db")
    shop.sql("create table orders (id integer primary key not null)", "insert into orders values (1), (2)")
    write(tmp_path)
    return tmp_path


def write(folder, **conf):
    stream = {"source": {"connection": "shop", "table": "orders"}, "target": "lake.s.o", "strategy": "full"}
    Workspace(folder=folder).write(
        {"orders": {**stream, "write": "replace"}},
        connections={"shop": {"url": f"sqlite:///{folder / 'shop.db'}"}},
        spark={"master": "local[1]", "conf": {"spark.driver.memory": "1g", **conf}},
    )


def run(folder, *words, **environ):
    done = subprocess.run(
        [*TIDEGATE, "run", *words],
        cwd=folder,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    return done.returncode, done.stderr


def refused(said):
    code, err = said
    return code == 2 and "error[config]" in err and "--trust-project" in err and "spark.hadoop.fs.odd.impl" in err


@pytest.mark.parametrize("trusted", [True, False], ids=["a trusting service", "a service that trusts nobody"])
def test_a_command_counts_by_its_own_flag(project, trusted):
    if trusted:
        write(project, **CODE)
    words = ["serve", "--no-http", "--no-schedule", *(["--trust-project"] if trusted else [])]
    with (
        (project / "serve.log").open("wb") as log,
        subprocess.Popen([*TIDEGATE, *words], cwd=project, stdout=log, stderr=log) as service,
    ):
        try:
            deadline = time.monotonic() + 60
            while Place.of(project).connect() is None:
                assert time.monotonic() < deadline, (project / "serve.log").read_text()
                time.sleep(0.1)
            write(project, **CODE)
            if trusted:
                served = run(project)
                assert refused(served)
                assert served[1] == run(project, "--local")[1]
                (project / ".env").write_text("TIDEGATE_TRUST_PROJECT=1\n")
                assert refused(run(project)), "the project would trust itself"
                (project / ".env").unlink()
            code, err = run(project, "--trust-project") if trusted else run(project, TIDEGATE_TRUST_PROJECT="1")
            assert code == 0, err
        finally:
            service.terminate()
    assert [row["id"] for row in Workspace(folder=project).rows("s.o")] == [1, 2]


def test_a_service_that_trusts_nobody_does_not_start_with_such_a_project(project):
    write(project, **CODE)
    done = subprocess.run([*TIDEGATE, "serve", "--no-http"], cwd=project, capture_output=True, text=True, check=False)
    assert refused((done.returncode, done.stderr))
