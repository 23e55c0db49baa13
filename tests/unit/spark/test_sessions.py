"""How Spark is reached, as far as it shows without starting one."""

from __future__ import annotations

import builtins
import gc
import logging
import os
import re
import subprocess
import sys
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tidegate.errors import EnvironmentMissing
from tidegate.formats.delta import Delta
from tidegate.spark import shared, sql
from tidegate.spark.jars import LOCAL_FILES
from tidegate.spark.needed import LOG_STORE
from tidegate.spark.session import LOAD_CONF, Sessions


class Conf(dict[str, Any]):
    def set(self, key: str, value: Any) -> None:
        self[key] = value


class Session:
    """What `Sessions` uses of a classic session."""

    def __init__(self, **conf: Any) -> None:
        self.conf, self.made = Conf(conf), []
        self.stopped = False

    def newSession(self) -> Session:  # noqa: N802 - PySpark's word
        self.made.append(Session(**self.conf))
        return self.made[-1]

    def sql(self, statement: str) -> Any:
        """Every class is there."""
        return SimpleNamespace(schema=[statement])

    def stop(self) -> None:
        self.stopped = True


class ServerSession(Session):
    """What `Sessions` uses of a session of Connect."""

    def __init__(self, **conf: Any) -> None:
        super().__init__(**conf)
        self.client = SimpleNamespace(set_retry_policies=lambda _policies: None)

    def cloneSession(self) -> ServerSession:  # noqa: N802 - PySpark's word
        return ServerSession(**self.conf)


ServerSession.__module__ = "pyspark.sql.connect.session"
PASSWORD = "spark.sql.catalog.lake.jdbc.password"
LAKE = {"spark.sql.extensions": "iceberg.Ext", "spark.sql.catalog.lake": "iceberg.Catalog"}


def test_no_jvm_is_launched_beside_a_session_of_the_caller() -> None:
    with Sessions(borrowed=Session(), jars=["no:such:1"]) as sessions:
        sessions.launch()
        assert not sessions.started


NO_JAVA = """
from tidegate.errors import EnvironmentMissing
from tidegate.spark.session import Sessions
with Sessions() as sessions:
    sessions.launch()
    try:
        sessions.load_session()
    except EnvironmentMissing as error:
        print(error)
"""


def test_a_jvm_that_cannot_be_launched_says_so_when_it_is_needed(tmp_path: Path) -> None:
    environ = {**os.environ, "JAVA_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", NO_JAVA], capture_output=True, text=True, check=True, env=environ)
    assert "no bin/java" in done.stdout


def test_a_borrowed_session_is_neither_changed_nor_stopped() -> None:
    mine = Session(**{"spark.sql.extensions": "iceberg.Ext"})
    with Sessions(borrowed=mine, lakes=[LAKE], conf={"spark.sql.shuffle.partitions": "3"}) as sessions:
        loads = [sessions.load_session() for _ in range(2)]
        assert not sessions.started
    assert dict(mine.conf) == {"spark.sql.extensions": "iceberg.Ext"}
    assert not mine.stopped
    assert loads == mine.made
    for load in loads:
        assert load.conf["spark.sql.catalog.lake"] == "iceberg.Catalog"
        assert load.conf["spark.sql.shuffle.partitions"] == "3"
        assert LOAD_CONF.items() <= load.conf.items()


def test_a_session_is_there_at_once_where_the_service_keeps_spark_warm() -> None:
    """Nobody is told then that Spark starts."""
    warm = [False]
    shared.provide(lambda _: None, warm=lambda: warm[0])
    try:
        assert not Sessions().ready
        warm[0] = True
        assert Sessions().ready
        assert not Sessions(remote="sc://127.0.0.1:1").ready, "that is another Spark"
    finally:
        shared.provide(None)
    assert not Sessions().ready


def test_pyspark_is_imported_by_one_thread_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams run in parallel, and two threads that import it at once get halves of it."""
    sessions = Sessions(borrowed=Session(**{"spark.sql.extensions": "iceberg.Ext"}), lakes=[LAKE])
    alone: list[bool] = []
    real = builtins.__import__

    def watched(name: str, *arguments: Any, **named: Any) -> Any:
        if name.startswith("pyspark"):
            alone.append(sessions._lock.locked())
        return real(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", watched)
    sessions.load_session()
    monkeypatch.undo()
    assert alone
    assert all(alone)


def test_secrets_of_a_lake_are_known_to_spark_from_its_start() -> None:
    """Its event log masks no others."""
    lake = {**LAKE, "spark.sql.catalog.lake.jdbc.password": "x", "spark.sql.catalog.lake.credential": "y"}
    conf = Sessions(lakes=[lake])._start_conf()
    for key, value in lake.items():
        if key.endswith(("password", "credential")):
            assert conf[key] == value
            assert re.search(conf["spark.redaction.regex"], key)


@pytest.mark.parametrize(
    ("started_with", "refused"),
    [
        ({}, False),
        ({"spark.eventLog.enabled": "true"}, True),
        ({"spark.eventLog.enabled": "true", PASSWORD: "another"}, True),
        ({"spark.eventLog.enabled": "true", PASSWORD: "x"}, False),
        ({"spark.eventLog.enabled": "true", PASSWORD: "x", "spark.redaction.regex": "token"}, True),
    ],
)
def test_an_event_log_that_would_show_a_password_is_refused(started_with: dict[str, str], refused: bool) -> None:
    mine = Session(**{"spark.sql.extensions": "iceberg.Ext", **started_with})
    sessions = Sessions(borrowed=mine, lakes=[{**LAKE, PASSWORD: "x"}])
    if not refused:
        assert sessions.load_session().conf[PASSWORD] == "x"
        return
    with pytest.raises(EnvironmentMissing, match=f"event log, which would show what {re.escape(PASSWORD)} is") as error:
        sessions.load_session()
    assert "spark.eventLog.enabled=false" in error.value.hint


def test_what_has_ended_on_a_server_is_not_collected_while_other_loads_run() -> None:
    base = ServerSession(**{"spark.sql.extensions": "iceberg.Ext", "spark.sql.session.timeZone": "UTC"})
    with Sessions(borrowed=base, lakes=[LAKE]) as sessions:
        ended = weakref.ref(session := sessions.load_session())
        sessions.release(session)
        assert session.stopped
        del session
        gc.collect()
        assert ended() is not None
    del sessions
    gc.collect()
    assert ended() is None


@pytest.mark.parametrize("word", ["user", "time", "tidegate", "x", "UTC", "authenticate"])
def test_a_password_may_be_a_word_of_our_own_settings(word: str) -> None:
    sessions = Sessions(lakes=[LAKE], secrets=[word])
    conf = sessions._start_conf(["-XX:+UseG1GC", "-Dx=/opt/tidegate/time"])
    assert "-Duser.timezone=UTC" in conf["spark.driver.extraJavaOptions"]


def test_our_own_settings_show_no_password_in_an_event_log() -> None:
    mine = Session(**{"spark.sql.extensions": "iceberg.Ext", "spark.eventLog.enabled": "true"})
    sessions = Sessions(borrowed=mine, lakes=[LAKE], secrets=["static", "true", "UTC"])
    assert sessions.load_session().conf["spark.sql.session.timeZone"] == "UTC"


def test_commands_to_a_jvm_are_not_logged() -> None:
    """At debug py4j logs each of them, passwords included."""
    log = logging.getLogger("py4j")
    before = log.level
    log.setLevel(logging.DEBUG)
    try:
        Sessions(borrowed=Session(**{"spark.sql.extensions": "iceberg.Ext"}), lakes=[LAKE]).load_session()
        assert not log.isEnabledFor(logging.DEBUG)
    finally:
        log.setLevel(before)


def test_a_session_without_the_extensions_is_refused() -> None:
    with pytest.raises(EnvironmentMissing, match="without the SQL extensions that a lake needs") as error:
        Sessions(borrowed=Session(), lakes=[LAKE]).load_session()
    assert "spark.sql.extensions=iceberg.Ext" in error.value.hint


def test_a_session_whose_commits_to_delta_in_s3_may_be_replaced_is_refused() -> None:
    lake = Delta(name="lake", warehouse="s3a://lake/t").spark_conf()
    started = {"spark.sql.extensions": lake["spark.sql.extensions"]}
    with pytest.raises(EnvironmentMissing, match="loses a commit without a word") as error:
        Sessions(borrowed=Session(**started), lakes=[lake], conf={LOG_STORE: "set.too.late"}).load_session()
    assert f"`{LOG_STORE}=tidegate.ConditionalLogStore`" in error.value.hint
    assert "delta-log-store.jar" in error.value.hint
    own = Session(**started, **{LOG_STORE: "io.delta.storage.S3DynamoDBLogStore"})
    assert Sessions(borrowed=own, lakes=[lake]).load_session().conf[LOG_STORE] == own.conf[LOG_STORE]


def test_commits_to_delta_in_s3_are_conditional_unless_the_project_says_otherwise() -> None:
    lakes = [LAKE, Delta(name="lake", warehouse="s3a://lake/t").spark_conf()]
    assert Sessions(lakes=lakes)._start_conf()[LOG_STORE] == "tidegate.ConditionalLogStore"
    assert Sessions(lakes=lakes, conf={LOG_STORE: "mine.Store"})._start_conf()[LOG_STORE] == "mine.Store"
    assert LOG_STORE not in Sessions(lakes=[LAKE])._start_conf()


def test_catalogs_write_files_of_this_machine_without_programs_where_the_jvm_has_the_class() -> None:
    lakes = [{"spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog"}, {"spark.sql.catalog.other": "x.Y"}]
    named = "spark.sql.catalog.lake.hadoop.fs.file.impl"
    wanted = {named: "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem", f"{named}.disable.cache": "true"}

    def found(master: str = "local[*]", jars: tuple[str, ...] = (LOCAL_FILES,), **given: str) -> dict[str, str]:
        conf = Sessions(master=master, jars=jars, lakes=lakes, conf=given)._start_conf()
        return {key: value for key, value in conf.items() if ".hadoop." in key}

    assert found() == wanted
    assert found(**{named: "mine"}) == {**wanted, named: "mine"}
    assert found(jars=()) == {}
    mine = Session()
    assert not any(".hadoop." in key for key in Sessions(borrowed=mine, lakes=lakes).load_session().conf)


def test_local_and_cluster_get_their_jars_differently(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TIDEGATE_CACHE", str(tmp_path))
    jars, files = ["x:a:1", "x:b:2"], [tmp_path / "a-1.jar", tmp_path / "b-2.jar"]
    for file in files:
        file.touch()
    local = Sessions(master="local[4]", jars=jars, lakes=[LAKE], conf={"spark.sql.extensions": "mine"})
    cluster = Sessions(master="yarn", jars=jars, lakes=[LAKE, LAKE], conf={"spark.driver.memory": "9g"})
    here, there = (each._start_conf(each._java_options(small=True)) for each in (local, cluster))
    assert here["spark.sql.extensions"] == "iceberg.Ext,mine"
    assert "-XX:TieredStopAtLevel=1" in here["spark.driver.extraJavaOptions"]
    assert "spark.jars" not in here
    assert there["spark.jars"] == ",".join(map(str, files))
    assert there["spark.sql.extensions"] == "iceberg.Ext"
    assert there["spark.driver.memory"] == "9g"
    assert "TieredStopAtLevel" not in there["spark.driver.extraJavaOptions"]
    assert not {key for key in (*here, *there) if key.startswith("spark.sql.catalog")}, "they may hold a password"


def test_a_spark_for_days_is_no_quick_one_and_the_users_options_come_last() -> None:
    name = "spark.driver.extraJavaOptions"

    def options(mine: str = "", *, small: bool = True, lasting: bool = False, much: bool = False) -> list[str]:
        sessions = Sessions(master="local[4]", conf={name: mine})
        sessions.lasting, sessions.expects_much = lasting, much
        return sessions._start_conf(sessions._java_options(small=small))[name].split()

    quick, days = options(), options(lasting=True)
    assert not any("Tier" in each for each in options(small=False))
    assert any(each.startswith("-XX:Tier4") for each in options(much=True)), "a larger load follows the small one"
    assert "-XX:TieredStopAtLevel=1" in quick
    assert "-XX:TieredStopAtLevel=1" not in days
    assert "-XX:ReservedCodeCacheSize=240m" in quick, "the first compiler alone would have 48 MB"
    assert {"-XX:+UseG1GC", "-XX:ReservedCodeCacheSize=240m", "-XX:G1PeriodicGCInterval=30000"} <= set(days)
    mine = options("-XX:+UseParallelGC -XX:ReservedCodeCacheSize=512m", lasting=True)
    assert [each for each in mine if "GC" in each and "Use" in each] == ["-XX:+UseParallelGC"]
    assert mine[-1] == "-XX:ReservedCodeCacheSize=512m"


def test_importing_the_package_does_not_import_pyspark() -> None:
    program = (
        "import sys, tidegate.spark.session, tidegate.spark.dataframe_ops, tidegate.spark.jars\n"
        "import tidegate.formats.iceberg.format, tidegate.writers.merge, tidegate.writers.append\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('pyspark', 'py4j', 'pyiceberg', 'psycopg')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_names_are_never_syntax() -> None:
    from tidegate.core.ids import Target

    target = Target(lake="l`k", namespace=("a", "b.c"), table="t")
    assert sql.table(target) == "`l``k`.`a`.`b.c`.`t`"
    assert sql.table(target, "x") == "`l``k`.`a`.`b.c`.`t`.`branch_x`"
    assert sql.namespaces(target) == ("`l``k`.`a`", "`l``k`.`a`.`b.c`")
    assert sql.string("a'b\\c\n") == r"'a\'b\\c\n'"
