"""A password goes where it is needed and nowhere else: not into an output, a log, a record or a file."""

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from integration.cli.conftest import ORDERS
from integration.cli.terminal import Said, Terminal
from support.workspace import Workspace

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

PASSWORD = "p@ss:w/rd%&é"
ROLE = "guarded"
FORMS = {form.encode() for form in (PASSWORD, quote(PASSWORD, safe=""), quote(PASSWORD), quote_plus(PASSWORD))} | {
    PASSWORD.encode("latin-1"),
    json.dumps(PASSWORD)[1:-1].encode(),
}
VARIABLE = "CANARY_PASSWORD"


@pytest.fixture(scope="session")
def guarded(postgres) -> Iterator[str]:
    """A database whose only role with rights has to tell its password; a URL with a reference to it."""
    access = postgres.data / "pg_hba.conf"
    before = access.read_text()
    access.write_text(f"host all {ROLE} 127.0.0.1/32 scram-sha-256\n{before}")  # in place: the owner stays
    name = postgres.create_database().rpartition("/")[2]
    with postgres.connect() as admin:
        admin.execute(f"create role {ROLE} login password '{PASSWORD}'")
        admin.execute(f"grant create on database {name} to {ROLE}")
        admin.execute("select pg_reload_conf()")
    with postgres.connect(name) as admin:
        admin.execute(f"grant create on schema public to {ROLE}")
        admin.execute("create table orders (id int primary key, amount text)")
        admin.execute(f"alter table orders owner to {ROLE}")
        admin.execute("insert into orders select i, 'a' || i from generate_series(1, 100) i")
    yield f"postgresql://{ROLE}:${{{VARIABLE}}}@127.0.0.1:{postgres.port}/{name}"
    access.write_text(before)
    postgres.drop_database(name)
    with postgres.connect() as admin:
        admin.execute(f"drop role {ROLE}")
        admin.execute("select pg_reload_conf()")


@pytest.fixture
def project(tmp_path, monkeypatch) -> Workspace:
    monkeypatch.setenv(VARIABLE, PASSWORD)
    return Workspace(folder=tmp_path)


def write(workspace: Workspace, url: str, **rest) -> None:
    values = {"registry": url, "lakes": {"lake": {"catalog": {"type": "postgresql", "uri": url}}}}
    workspace.write(rest.pop("streams", {"orders": ORDERS}), connections={"shop": {"url": url}}, **{**values, **rest})


def leaks(data: bytes) -> list[bytes]:
    return [form for form in FORMS if form in data]


def clean(said: Said) -> None:
    found = leaks(said.everything.encode())
    assert not found, [line for line in said.everything.splitlines() if leaks(line.encode())]


def clean_files(folder: Path) -> int:
    """Every file below the folder; how many there were."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    for path in files:
        assert not leaks(path.read_bytes()), path
    return len(files)


def dump(postgres, name: str) -> bytes:
    """Every row of every table of the database: registry, catalog."""
    with postgres.connect(name) as admin:
        tables = admin.execute(
            "select format('%I.%I', schemaname, tablename) from pg_tables "
            "where schemaname not in ('pg_catalog', 'information_schema')"
        ).fetchall()
        assert len(tables) > 5
        rows = [admin.execute(f"select t::text from {table} t").fetchall() for (table,) in tables]
    return repr(rows).encode()


def test_no_output_and_no_file_holds_a_password(project, capfd, postgres, guarded):
    """Connection, registry and catalog all need it; what Spark and py4j write in a process of their own counts, too."""
    (project.folder / "events").mkdir()
    logged = {"enabled": True, "dir": f"file://{project.folder / 'events'}", "compress": False}
    conf = {f"spark.eventLog.{name}": value for name, value in logged.items()} | {"spark.driver.memory": "1g"}
    write(project, guarded, spark={"master": "local[2]", "conf": conf})
    tidegate = Terminal(folder=project.folder, capfd=capfd)
    name = guarded.rpartition("/")[2]
    run = tidegate.process("run", "--json", "--log-level", "debug", "--log-format", "json")
    assert run.exit_code == 0, run.everything
    assert run.document["streams"][0]["verified"] is True
    clean(run)
    for words in (
        ["plan"],
        ["status"],
        ["history", "orders"],
        ["tasks"],
        ["state", "show", "orders"],
        ["check"],
        ["doctor"],
    ):
        for more in ([], ["--json", "--log-level", "debug", "--log-format", "json"]):
            said = tidegate(*words, *more)
            assert said.exit_code == 0, said.everything
            clean(said)
    assert not leaks(dump(postgres, name))
    events = [path for path in (project.folder / "events").rglob("*") if path.is_file()]
    assert any(b"SparkListenerApplicationStart" in path.read_bytes() for path in events)
    assert list((project.folder / "warehouse").rglob("*.metadata.json"))
    assert list((project.folder / "warehouse").rglob("snap-*.avro"))
    assert clean_files(project.folder) > 5


def test_a_login_that_fails_tells_no_password(project, capfd, monkeypatch, postgres, guarded):
    tidegate = Terminal(folder=project.folder, capfd=capfd)
    trusted = re.sub(rf"{ROLE}:[^@]*@", "postgres@", guarded)
    wrong = PASSWORD + "x"
    monkeypatch.setenv(VARIABLE, wrong)
    words = ("run", "--log-level", "debug", "--log-format", "json")

    def refused(code: str) -> None:
        said = tidegate(*words)
        clean(said)
        assert (said.exit_code, f"error[{code}]" in said.err) == (1, True), said.everything

    write(project, guarded)
    refused("registry")
    here = {"registry": "sqlite:///r.db", "streams": {"orders": ORDERS}}
    lake = {"lake": {"catalog": {"type": "postgresql", "uri": guarded}}}
    project.write(connections={"shop": {"url": trusted}}, lakes=lake, **here)
    refused("write")
    project.write(connections={"shop": {"url": guarded}}, **here)
    refused("source_refused")
    log = postgres.folder / "log"
    before = log.read_text().count("password authentication failed")
    tidegate("run").refuses("source_refused", 1, "refused the login", "tidegate doctor")
    assert log.read_text().count("password authentication failed") == before + 1, "servers lock accounts that try often"
    said = tidegate("doctor")
    assert said.exit_code == 1
    clean(said)
    project.write(connections={"shop": {"url": guarded.replace(f"${{{VARIABLE}}}", wrong)}}, **here)
    said = tidegate(*words)  # the raw text, whose @ : / % tear the URL apart
    clean(said)
    assert said.exit_code in (1, 2), said.everything
    (project.folder / "tidegate.yaml").unlink()  # which holds it now
    clean_files(project.folder)


ONLY_SPARK_FAILS = """
select id, (1 / case when current_setting('application_name') like '%JDBC%' then id - 7 else 1 end)::text as amount
from orders
"""


def test_a_load_that_fails_in_spark_tells_no_password(project, capfd, spark, guarded, postgres, caplog, monkeypatch):
    """With a session of the caller, whose program logs everything at debug."""
    source = {"connection": "shop", "query": ONLY_SPARK_FAILS}
    write(project, guarded, streams={"orders": {**ORDERS, "target": "lake.shop.failing", "source": source}})
    monkeypatch.setattr(logging.getLogger("py4j"), "level", logging.NOTSET)
    caplog.set_level(logging.DEBUG, "tidegate")
    with caplog.at_level(logging.DEBUG), project.project(spark) as opened:
        (outcome,) = opened.run().streams
    assert outcome.error
    assert (outcome.error.code, outcome.error.message[:31]) == ("source", "the source rejected a statement")
    assert not leaks(json.dumps(outcome.to_dict(), ensure_ascii=False).encode())
    assert not [text for text in map(logging.LogRecord.getMessage, caplog.records) if leaks(text.encode())]
    stacks = [logging.Formatter().formatException(record.exc_info) for record in caplog.records if record.exc_info]
    assert stacks
    assert not [text for text in stacks if leaks(text.encode())]
    assert not leaks("".join(capfd.readouterr()).encode())
    assert not leaks(dump(postgres, guarded.rpartition("/")[2]))
    assert clean_files(project.folder) > 0


def test_the_search_finds_what_it_looks_for(tmp_path):
    """A check that cannot fail would prove nothing."""
    for number, form in enumerate(FORMS):
        (tmp_path / str(number)).write_bytes(b"x" + form + b"y")
        with pytest.raises(AssertionError):
            clean_files(tmp_path)
        (tmp_path / str(number)).unlink()
