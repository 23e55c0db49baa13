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
def project(tmp_path, guarded, monkeypatch) -> Workspace:
    """Connection, registry and catalog all need the password; Spark keeps its event log in the project."""
    monkeypatch.setenv(VARIABLE, PASSWORD)
    workspace = Workspace(folder=tmp_path)
    write(workspace, guarded)
    return workspace


ONLY_SPARK_FAILS = """
select id, (1 / case when current_setting('application_name') like '%JDBC%' then id - 7 else 1 end)::text as amount
from orders
"""


def write(workspace: Workspace, url: str, *, spark: bool = True, **changes) -> None:
    events = workspace.folder / "events"
    events.mkdir(exist_ok=True)
    conf = {
        "spark.driver.memory": "1g",
        "spark.eventLog.enabled": True,
        "spark.eventLog.dir": f"file://{events}",
        "spark.eventLog.compress": False,
    }
    values = {
        "registry": url,
        "lakes": {"lake": {"catalog": {"type": "postgresql", "uri": url}}},
        **({"spark": {"master": "local[2]", "conf": conf}} if spark else {}),
    }
    workspace.write({"orders": {**ORDERS, **changes}}, connections={"shop": {"url": url}}, **values)


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


@pytest.mark.slow
def test_no_output_and_no_file_holds_a_password(project, capfd, postgres, guarded):
    """One process of its own: what Spark and py4j write there is looked at too."""
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
        for more in ([], ["--json"], ["--log-level", "debug", "--log-format", "json"]):
            said = tidegate(*words, *more)
            assert said.exit_code == 0, said.everything
            clean(said)
    assert not leaks(dump(postgres, name))
    events = [path for path in (project.folder / "events").rglob("*") if path.is_file()]
    assert any(b"SparkListenerApplicationStart" in path.read_bytes() for path in events)
    assert list((project.folder / "warehouse").rglob("*.metadata.json"))
    assert list((project.folder / "warehouse").rglob("snap-*.avro"))
    assert clean_files(project.folder) > 5


@pytest.mark.parametrize("level", ["info", "debug"])
def test_a_login_that_fails_tells_no_password(project, capfd, monkeypatch, level, guarded):
    tidegate = Terminal(folder=project.folder, capfd=capfd)
    trusted = re.sub(rf"{ROLE}:[^@]*@", "postgres@", guarded)
    wrong = PASSWORD + "x"
    monkeypatch.setenv(VARIABLE, wrong)
    words = ("run", "--log-level", level, "--log-format", "json")
    said = tidegate(*words)  # the registry
    clean(said)
    assert (said.exit_code, "error[registry]" in said.err) == (1, True), said.everything
    here = {"registry": "sqlite:///r.db", "streams": {"orders": ORDERS}}
    lake = {"lake": {"catalog": {"type": "postgresql", "uri": guarded}}}
    project.write(connections={"shop": {"url": trusted}}, lakes=lake, **here)
    said = tidegate(*words)  # the catalog
    clean(said)
    assert (said.exit_code, "error[write]" in said.err) == (1, True), said.everything
    project.write(connections={"shop": {"url": guarded}}, **here)
    said = tidegate(*words)  # the source
    clean(said)
    assert (said.exit_code, "error[source_refused]" in said.err) == (1, True), said.everything
    if level == "info":
        said.refuses("source_refused", 1, "refused the login", "tidegate doctor")
    said = tidegate("doctor")
    assert said.exit_code == 1
    clean(said)
    project.write(connections={"shop": {"url": guarded.replace(f"${{{VARIABLE}}}", wrong)}}, **here)
    said = tidegate(*words)  # the raw text, whose @ : / % tear the URL apart
    clean(said)
    assert said.exit_code in (1, 2), said.everything
    (project.folder / "tidegate.yaml").unlink()  # which holds it now
    clean_files(project.folder)


def test_a_wrong_password_is_tried_once(project, capfd, monkeypatch, postgres, guarded):
    """Servers lock accounts after a few failures."""
    here = {"registry": "sqlite:///r.db", "streams": {"orders": ORDERS}}
    project.write(connections={"shop": {"url": guarded}}, **here)
    monkeypatch.setenv(VARIABLE, "wrong")
    log = postgres.folder / "log"
    before = log.read_text().count("password authentication failed")
    Terminal(folder=project.folder, capfd=capfd)("run").refuses("source_refused", 1, "refused the login")
    assert log.read_text().count("password authentication failed") == before + 1


def test_a_load_that_fails_in_spark_tells_no_password(project, capfd, spark, guarded, postgres, caplog):
    """With a session of the caller, whose program logs everything at debug."""
    write(
        project,
        guarded,
        spark=False,
        target="lake.shop.failing",
        source={"connection": "shop", "query": ONLY_SPARK_FAILS},
    )
    level = logging.getLogger("py4j").level
    logging.getLogger("py4j").setLevel(logging.NOTSET)
    try:
        caplog.set_level(logging.DEBUG, "tidegate")
        with caplog.at_level(logging.DEBUG), project.project(spark) as opened:
            (outcome,) = opened.run().streams
        assert outcome.error
        assert (outcome.error.code, outcome.error.message[:31]) == ("source", "the source rejected a statement")
        told = json.dumps(outcome.to_dict(), ensure_ascii=False).encode()
        assert not leaks(told)
        assert not [text for text in map(logging.LogRecord.getMessage, caplog.records) if leaks(text.encode())]
        stacks = [logging.Formatter().formatException(record.exc_info) for record in caplog.records if record.exc_info]
        assert stacks
        assert not [text for text in stacks if leaks(text.encode())]
        out, err = capfd.readouterr()
        assert not leaks((out + err).encode())
        assert not leaks(dump(postgres, guarded.rpartition("/")[2]))
        assert clean_files(project.folder) > 0
    finally:
        logging.getLogger("py4j").setLevel(level)


def test_the_search_finds_what_it_looks_for(tmp_path):
    """A check that cannot fail would prove nothing."""
    for number, form in enumerate(FORMS):
        (tmp_path / str(number)).write_bytes(b"x" + form + b"y")
        with pytest.raises(AssertionError):
            clean_files(tmp_path)
        (tmp_path / str(number)).unlink()
