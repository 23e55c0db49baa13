"""Spark as a process of its own sees it: what it prints, what it leaves behind, what it says when it does not start."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tidegate.spark.jars import DELTA, DELTA_STORAGE, ICEBERG, SQLITE

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

START = """
import sys, pathlib
from tidegate.formats.iceberg.format import Iceberg
from tidegate.spark.session import Sessions
lake = Iceberg(name="lake", folder=pathlib.Path(sys.argv[1]))
conf = {"spark.driver.memory": sys.argv[2], "spark.hadoop.some.secret": "hunter2"}
sessions = Sessions(master="local[1]", conf=conf, lakes=[lake.spark_conf()], jars=lake.jars())
"""
ONCE = """
assert not sessions.started
with sessions:
    session = sessions.load_session(small=True)
    assert sessions.started
    from tidegate.errors import TidegateError
    try:
        session.sql("SELECT nothing")
    except Exception as error:
        print(type(error).__name__)
    print(session.sql("SELECT sum(id) FROM range(5)").collect()[0][0])
    command = [open(f"/proc/{pid}/cmdline").read() for pid in children()]
    assert any("org.apache.spark.deploy.SparkSubmit" in each for each in command), command
    assert "hunter2" not in "".join(command), "a secret on a command line"
    mapped = "".join(open(f"/proc/{pid}/maps").read() for pid in children())
    assert sys.argv[3] in mapped, "the archive of classes does not fit"
assert not sessions.started
print(children())
"""
ARCHIVE = """
from tidegate.spark import archive, jars
print(archive.make((jars.ICEBERG,)))
"""
CHILDREN = """
import os
def children():
    return [int(pid) for pid in open(f"/proc/self/task/{os.getpid()}/children").read().split()]
"""


def run(program: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CHILDREN + START + program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **variables},
    )


def test_a_jvm_of_our_own_is_quiet_keeps_secrets_and_is_gone_after_stop(tmp_path: Path) -> None:
    made = run(ARCHIVE, str(tmp_path), "1g").stdout.strip()
    done = run(ONCE + ONCE, str(tmp_path), "1g", made)
    assert done.stderr == ""
    assert done.stdout.split() == ["AnalysisException", "10", "[]"] * 2


LAUNCHED = """
with Sessions(master="local[1]", conf=conf, lakes=[lake.spark_conf()], jars=lake.jars()) as sessions:
    sessions.launch(small=True)
    assert not sessions.started and "pyspark" not in sys.modules
    launched = children()
    if sys.argv[3] == "killed":
        os.kill(launched[0], 9)
    if sys.argv[3] != "unused":
        rows = sessions.load_session().sql("SELECT sum(id) FROM range(5)").collect()
        print(len(launched), rows[0][0], children() == launched)
print(children(), list(pathlib.Path(os.environ["TMPDIR"]).rglob("*")))
"""


@pytest.mark.parametrize(("then", "said"), [("used", "1 10 True\n"), ("killed", "1 10 False\n"), ("unused", "")])
def test_a_jvm_is_launched_before_it_is_needed(then: str, said: str, tmp_path: Path) -> None:
    """It is the one that is used; one that was killed meanwhile is replaced, one that nobody needed ends."""
    (place := tmp_path / "tmp").mkdir()
    done = run(LAUNCHED, str(tmp_path), "1g", then, TMPDIR=str(place))
    assert (done.stdout, done.stderr) == (f"{said}[] []\n", "")


BORROWED = """
from pyspark.sql import SparkSession
from tidegate.spark.jars import resolve
paths = ":".join(map(str, resolve(lake.jars())))
builder = SparkSession.builder.master("local[1]").config("spark.driver.extraClassPath", paths)
for key, value in lake.spark_conf().items():
    builder = builder.config(key, value)
mine = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()  # a slow job shows a bar
mine.sparkContext.setLogLevel("OFF")  # a busy machine is warned of; what PySpark logs is not Java's
print("begins", file=sys.stderr, flush=True)
with Sessions(borrowed=mine, lakes=[lake.spark_conf()], jars=lake.jars()) as sessions:
    print(sessions.load_session().sql("SELECT 1").collect()[0][0])
print("ends", file=sys.stderr, flush=True)
mine.stop()
"""


def test_a_program_with_a_spark_of_its_own_reads_no_errors_of_our_questions(tmp_path: Path) -> None:
    done = run(BORROWED, str(tmp_path), "1g")
    assert done.stdout == "1\n", done.stderr
    assert done.stderr.partition("begins\n")[2].partition("ends\n")[0] == ""


def test_no_program_is_started_for_a_file_of_a_table(tmp_path: Path) -> None:
    """Hadoop would start `chmod` for the file and for its checksum."""
    told, tools = tmp_path / "told", tmp_path / "tools"
    tools.mkdir()
    (tmp_path / ".tidegate").mkdir()
    chmod = tools / "chmod"
    chmod.write_text(f'#!/bin/sh\necho "$@" >> {told}\nexec {shutil.which("chmod")} "$@"\n')
    chmod.chmod(0o755)
    program = f"""
with sessions:
    session = sessions.load_session(small=True)
    session.range(1).write.parquet({str(tmp_path / "plain")!r})
    session.sql("CREATE NAMESPACE lake.shop")
    session.sql("CREATE TABLE lake.shop.t (id bigint) USING iceberg")
    session.sql("INSERT INTO lake.shop.t VALUES (1)")
"""
    done = run(program, str(tmp_path), "1g", PATH=f"{tools}:{os.environ['PATH']}")
    assert done.stderr == ""
    assert "/plain/" in told.read_text(), "this Spark starts none at all"
    assert "/warehouse/" not in told.read_text()
    written = [path for path in (tmp_path / "warehouse").rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in written} == {0o644}
    assert {path.name for path in written if path.name.startswith(".")} == {
        f".{path.name}.crc" for path in written if not path.name.startswith(".")
    }


def test_a_spark_that_does_not_start_is_one_clear_error(tmp_path: Path) -> None:
    program = """
try:
    sessions.load_session()
except Exception as error:
    print(error.code, "|", error, "|", error.hint)
print(children())
"""
    done = run(program, str(tmp_path), "1nonsense")
    assert done.stderr == ""
    told, left = done.stdout.splitlines()
    assert told.startswith("environment | Spark did not start | Correct `spark:`")
    assert left == "[]"


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_no_jvm_is_left_behind(tmp_path: Path, how: signal.Signals) -> None:
    program = "sessions.load_session()\nprint(children()[0], flush=True)\nimport time\ntime.sleep(200)"
    with subprocess.Popen(
        [sys.executable, "-c", CHILDREN + START + program, str(tmp_path), "1g"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        jvm = int(process.stdout.readline())
        assert alive(jvm)
        process.send_signal(how)
        process.wait(timeout=240)
    for _ in range(600):
        if not alive(jvm):
            return
        time.sleep(0.1)
    os.kill(jvm, signal.SIGKILL)
    pytest.fail("the JVM outlived the process that started it")


def alive(pid: int) -> bool:
    try:
        return "java" in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False


def test_a_session_of_the_caller_without_the_jars_is_told_which_and_how(tmp_path: Path) -> None:
    program = """
import pathlib, sqlite3, sys
from pyspark.sql import SparkSession
from tidegate.api import Project
folder = pathlib.Path(sys.argv[1])
with sqlite3.connect(folder / "shop.db") as shop:
    shop.execute("create table t (id integer primary key)")
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
for kind in ("iceberg", "delta"):
    source = {"connection": "shop", "table": "t"}
    stream = {"source": source, "target": "lake.a.t", "strategy": "full", "write": "replace"}
    values = {
        "connections": {"shop": {"url": f"sqlite:///{folder / 'shop.db'}"}},
        "lakes": {"lake": {"format": kind}},
        "streams": {"t": stream},
    }
    with Project.from_dict(values, folder=folder / kind, spark=spark) as project:
        (outcome,) = project.run("t").streams
    print(kind, outcome.error.code, "|", outcome.error.message, "|", outcome.error.hint)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stderr[-2000:]
    iceberg, delta = done.stdout.splitlines()
    assert iceberg.startswith("iceberg environment | the Spark session lacks the class org.apache.iceberg.spark.")
    assert f"spark.jars.packages={ICEBERG},{SQLITE}`" in iceberg
    assert "`spark.sql.extensions=org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions`" in iceberg
    assert delta.startswith("delta environment | the Spark session lacks the class org.apache.spark.sql.delta.catalog.")
    assert f"spark.jars.packages={DELTA},{DELTA_STORAGE}`" in delta


@pytest.mark.servers
def test_a_remote_server(tmp_path: Path, connect_server: str) -> None:
    program = f"""
from tidegate.core.ids import Target
from tidegate.core.ports.format import Layout
from tidegate.core.schema import BIGINT, Column, Schema
with Sessions(remote={connect_server!r}, lakes=[lake.spark_conf()]) as sessions:
    one, two = sessions.load_session(), sessions.load_session()
    one.conf.set("spark.sql.iceberg.snapshot-property.x", "y")
    print(two.conf.get("spark.sql.iceberg.snapshot-property.x", None), children())
    target = Target(lake="lake", namespace=("a",), table="b")
    lake.create(one, target, Schema(columns=(Column(name="id", type=BIGINT),)), Layout())
    print(lake.state(target, "u").exists, two.sql("SELECT * FROM lake.a.b").count())
"""
    done = run(program, str(tmp_path), "1g")
    assert (done.stdout.split(), done.stderr) == (["None", "[]", "True", "0"], "")


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    program = """
try:
    Sessions(remote="sc://localhost:1/;token=hunter2").load_session()
except Exception as error:
    print(error.code, "|", error, "|", error.hint)
"""
    done = run(program, str(tmp_path), "1g")
    assert done.stdout.startswith("environment | Spark at sc://localhost:1/ cannot be reached")
    assert "hunter2" not in done.stdout
