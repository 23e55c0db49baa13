"""`tidegate serve` as a user has it: commands from another shell, beside the same commands without a service."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from support.lake_servers import free_port
from support.listening import listening
from support.workspace import SqliteShop, Workspace
from tidegate.cli.app import main
from tidegate.service import wire
from tidegate.service.place import Place

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(500),
    pytest.mark.skipif(sys.platform != "linux", reason="the service needs Linux"),
]
TIDEGATE = [sys.executable, "-m", "tidegate"]


class Site:
    """A project of one table, its service, and shells in which commands are typed."""

    def __init__(self, folder):
        self.workspace = Workspace(folder=folder)
        self.folder = folder
        self.shop = SqliteShop(path=folder / "shop.db")
        self.shop.sql(
            "create table orders (id integer primary key not null, amount integer)",
            "insert into orders with recursive n(i) as (select 1 union all select i + 1 from n where i < 500) "
            "select i, i from n",
        )
        self.service = None
        self.write()

    def write(self, schedule=None, **rest):
        stream = {
            "source": {"connection": "shop", "table": "orders"},
            "target": "lake.shop.orders",
            "key": ["id"],
            "strategy": "full",
            "write": "merge",
        }
        stream |= {"schedule": schedule} if schedule else {}
        self.workspace.write({"orders": stream}, connections={"shop": {"url": self.shop.url}}, **rest)

    def change(self):
        self.shop.sql("update orders set amount = amount + 1")

    def serve(self, *words):
        log = (self.folder / "serve.log").open("ab")
        self.service = subprocess.Popen([*TIDEGATE, "serve", *words], cwd=self.folder, stdout=log, stderr=log)
        log.close()
        self.until(lambda: Place.of(self.folder).connect() is not None or self.service.poll() is not None)
        return self

    def log(self):
        return (self.folder / "serve.log").read_text(encoding="utf-8")

    def until(self, fulfilled, seconds=90):
        deadline = time.monotonic() + seconds
        while not fulfilled():
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.05)

    def start(self, *words):
        return subprocess.Popen(
            [*TIDEGATE, *words], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def run(self, *words):
        with self.start(*words) as command:
            out, err = command.communicate(timeout=200)
        return command.returncode, out, err

    def state(self):
        connection = Place.of(self.folder).connect()
        with connection:
            wire.send(connection, {"ask": "state"})
            return wire.receive(connection)[0]

    def end(self):
        if self.service is not None and self.service.poll() is None:
            self.service.terminate()
            assert self.service.wait(60) == 0, self.log()

    def rows(self):
        """Those of the table, and those of the source."""
        found = {row["id"]: row["amount"] for row in self.workspace.rows("shop.orders")}
        return found, dict(self.shop.rows("select id, amount from orders"))

    def exact(self):
        """Whether the table is the source."""
        found, expected = self.rows()
        return found == expected

    def loads(self):
        """A command of the service's loads everything that there is."""
        code, out, err = self.run("run")
        assert code == 0, out + err
        found, expected = self.rows()
        assert found == expected

    def at_work(self):
        """Whether a command of the service's uses Spark."""
        return (self.state()["spark"] or {}).get("users") == 1


@pytest.fixture(autouse=True, scope="module")
def importable():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        yield


@pytest.fixture
def site(tmp_path):
    found = Site(tmp_path)
    yield found
    found.end()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    found = Site(tmp_path_factory.mktemp("shared"))
    found.port = free_port()
    found.serve("--no-schedule", "--port", str(found.port))
    found.loads()
    yield found
    found.end()


def test_nothing_can_be_reached_from_another_machine(shared, spark):
    """Neither the dashboard nor gateway, RPC and blocks of Spark, which wants to hear its secret from others here."""
    assert spark.sparkContext._jvm.org.apache.spark.SparkEnv.get().securityManager().isAuthenticationEnabled()
    found = listening(shared.service.pid)
    assert ("127.0.0.1", shared.port) in found
    assert len(found) >= 4
    assert {address for address, _ in found} <= {"127.0.0.1", "::1"}
    with (
        socket.create_server(("0.0.0.0", 0)) as open_to_all,
        socket.create_server(("::1", 0), family=socket.AF_INET6) as own,
    ):
        seen = listening(os.getpid())  # a check that cannot fail would prove nothing
        assert {("0.0.0.0", open_to_all.getsockname()[1]), ("::1", own.getsockname()[1])} <= seen


@pytest.fixture
def served(shared):
    """The service of this module; whatever a test did to it, it runs and the table is the source."""
    yield shared
    if shared.service.poll() is not None:
        shared.serve("--no-schedule")
    shared.loads()
    assert shared.state()["spark"]["users"] == 0
    assert shared.run("verify", "--level", "rows")[0] == 0


def shape(text):
    """Of an output what is the same each time: no identifiers, times and durations, and no progress."""
    text = re.sub(r"[0-9a-f]{32}|\d{4}-\d\d-\d\d[ T][\d:.]+(Z|\+00:00)?|\d+\.\d+|[\d,]+ rows/s", "#", text)
    text = re.sub(r".* in progress: .*\n", "", text)  # a service has started Spark before
    return re.sub(r" +|-{2,}", " ", text)


def test_commands_say_the_same_with_and_without_a_service(site, shared, capfd, monkeypatch, spark):
    """The same story in two folders, every command of it in both."""
    monkeypatch.chdir(site.folder)

    def alone(*words):
        capfd.readouterr()
        return main(words), *capfd.readouterr()

    assert alone("run")[0] == 0
    for each in (site, shared):
        each.shop.sql("delete from orders where id > 490", "update orders set amount = 7")
    for words in (
        ["run"],
        ["run", "--json"],
        ["run", "nobody"],
        ["run", "--no-such-option"],
        ["verify", "--level", "rows"],
        ["verify", "--json"],
        ["maintain", "--dry-run"],
        ["backfill", "list"],
        ["quarantine", "list"],
        ["rollback", "orders", "--to", "0"],
        ["run", "--full-refresh"],
        ["run", "--full-refresh", "--yes", "--quiet"],
    ):
        (code, out, err), (served_code, served_out, served_err) = alone(*words), shared.run(*words)
        assert served_code == code, (words, err, served_err)
        if "--json" in words:
            ours, theirs = json.loads(out), json.loads(served_out)
            assert ours.keys() == theirs.keys()
            outcomes = [[each.get("outcome") for each in document["streams"]] for document in (ours, theirs)]
            assert outcomes[0] == outcomes[1]
        else:
            assert shape(served_out) == shape(out), words
        told = shape(served_err.replace(str(shared.folder), ""))
        assert told == shape(err.replace(str(site.folder), "")), words
    assert site.exact()
    assert shared.exact()


def test_an_interruption_ends_one_command_and_what_spark_does_for_it(served):
    served.change()
    with served.start("run") as command:
        served.until(served.at_work)
        command.send_signal(signal.SIGINT)
        command.communicate(timeout=240)
    assert command.returncode == 130
    assert '"last_outcome": "interrupted"' in served.run("status", "--json")[1]
    # A command that did not end in time was killed, and its Spark with it.
    assert (served.state()["spark"] or {"users": 0})["users"] == 0


def test_a_killed_command_retires_the_spark_that_may_work_for_it(served):
    before = served.state()["spark"]["pid"]
    served.change()
    with served.start("run") as command:
        served.until(served.at_work)
        children = Path(f"/proc/{served.service.pid}/task").glob("*/children")
        os.kill(max(int(pid) for each in children for pid in each.read_text().split()), signal.SIGKILL)
        assert "error[service_lost]" in command.communicate(timeout=240)[1]
    served.until(lambda: (served.state()["spark"] or {"pid": None})["pid"] != before)


def test_a_command_that_lost_its_spark_goes_on_with_another(served):
    served.change()
    with served.start("run") as command:
        served.until(served.at_work)
        os.kill(served.state()["spark"]["pid"], signal.SIGKILL)
        _, err = command.communicate(timeout=120)
    assert command.returncode == 0, err
    assert "attempt 2 of 3 after spark_lost: " in err
    assert "internal" not in err


def test_commands_of_several_shells(served, monkeypatch):
    """Two side by side, one whose stdout is closed, one with other credentials, and one that would serve as well."""
    with served.start("verify", "--json") as one, served.start("verify", "--level", "rows", "--json") as two:
        said = [json.loads(each.communicate(timeout=100)[0]) for each in (one, two)]
    assert [each["streams"][0]["equal"] for each in said] == [True, True]
    for where in ([], ["--local"]):
        served.change()
        command = ["sh", "-c", 'exec "$@" >&-', "sh", *TIDEGATE, "run", "--json", *where]
        done = subprocess.run(command, cwd=served.folder, capture_output=True, text=True, check=False, timeout=200)
        assert (done.returncode, done.stdout, served.exact()) == (0, "", True), done.stderr
        assert not any(mark in done.stderr for mark in ("Traceback", "error["))
    code, _, err = served.run("serve")
    assert (code, f"a service of this project runs already: process {served.service.pid} since " in err) == (2, True)
    before = served.state()["spark"]["pid"]
    served.change()
    monkeypatch.setenv("AWS_PROFILE", "of-another-shell")
    served.loads()
    now = served.state()["spark"]["pid"]
    assert now != before
    assert b"AWS_PROFILE=of-another-shell\0" in Path(f"/proc/{now}/environ").read_bytes()


def test_the_service_is_killed_in_the_middle_of_loads_and_nothing_is_lost(served):
    for number in range(2):
        served.change()
        with served.start("run") as command:
            served.until(served.at_work if number else lambda: served.state()["commands"] == 1)
            served.service.kill()
            served.service.wait()
            _, err = command.communicate(timeout=240)
        assert (command.returncode, "error[service_lost]" in err) == (1, True), err
        assert "interrupted" not in err + served.run("history", "orders", "--limit", "1")[1], "nobody pressed Ctrl-C"
        served.serve("--no-schedule")


def test_the_schedule_goes_on_whatever_happens(site):
    """Spark is killed, the project is wrong for a while, and a source that is asked about a changed one is silent."""

    def goes_on():
        site.change()
        site.until(site.exact)

    site.write(schedule={"every": "1s"})
    site.serve()
    site.until(lambda: "orders: loaded" in site.log())
    before = site.state()["spark"]["pid"]
    os.kill(before, signal.SIGKILL)
    site.until(lambda: not Path(f"/proc/{before}").exists())
    goes_on()
    assert site.state()["spark"]["pid"] != before
    assert "error[" not in site.log()

    site.write(schedule={"evry": "1s"})
    site.until(lambda: "is not valid: the service keeps using the previous one" in site.log())
    assert "did you mean 'every'?" in site.log()
    goes_on()
    site.write(schedule={"every": "2s"})
    site.until(lambda: site.log().count("was changed: the service goes on with it") == 1)
    goes_on()

    with socket.create_server(("127.0.0.1", 0)) as silent:
        listed = {"source": {"connection": "dead", "table": "public.*"}, "target": "lake.dead.{table}"}
        listed |= {"strategy": "full", "write": "replace"}
        file = site.folder / "tidegate.yaml"
        project = yaml.safe_load(file.read_text(encoding="utf-8"))
        project["connections"]["dead"] = {"url": f"postgresql://u@127.0.0.1:{silent.getsockname()[1]}/shop"}
        project["streams"]["dead.*"] = listed
        file.write_text(yaml.safe_dump(project), encoding="utf-8")
        silent.settimeout(60)
        asked, _ = silent.accept()  # the check asks which tables there are, and gets no answer
        with asked:
            assert site.state()["commands"] == 0, "who calls is answered"
            assert site.log().count("was changed: the service goes on with it") == 1
            goes_on()
            site.write(schedule={"every": "1s"})
            site.until(lambda: site.log().count("was changed: the service goes on with it") == 2)


def test_spark_and_service_last_as_long_as_the_project_says(site):
    site.write(service={"idle_stop": "1s"})
    site.serve("--no-schedule")
    site.until(lambda: "Spark was idle for 1 s and is ended" in site.log())
    assert site.state()["spark"] is None
    site.loads()
    site.end()

    # A run leaves a service behind, and the Spark that was started for it: the next ones start none beside it.
    site.write(keep_warm="2m")
    socket_file = Place.of(site.folder).folder / "service.sock"
    site.change()
    site.loads()
    site.until(socket_file.exists)
    site.change()
    site.loads()
    first = site.state()
    try:
        site.change()
        code, _, err = site.run("run")
        assert (code, site.exact(), "starting Spark" in err) == (0, True, False), err
        assert site.state()["spark"]["pid"] == first["spark"]["pid"]
    finally:
        os.kill(first["pid"], signal.SIGTERM)
        site.until(lambda: not socket_file.exists())
    site.write(keep_warm="3s")
    site.change()
    site.loads()
    site.until(socket_file.exists)
    site.until(lambda: not socket_file.exists())


CODE = {"spark.hadoop.fs.odd.impl": "org.example.OddFileSystem"}


def refused(said):
    code, _, err = said
    return code == 2 and all(text in err for text in ("error[config]", "--trust-project", next(iter(CODE))))


def test_a_command_is_trusted_by_its_own_flag(site, monkeypatch):
    """Also where a service runs it, whomever that trusts; a service itself wants the flag, too."""
    monkeypatch.delenv("TIDEGATE_TRUST_PROJECT", raising=False)
    code = {"master": "local[1]", "conf": {"spark.driver.memory": "1g", **CODE}}
    site.serve("--no-http", "--no-schedule")
    site.write(spark=code)
    assert site.run("run", "--trust-project")[0] == 0
    site.end()
    assert refused(site.run("serve", "--no-http"))
    site.serve("--no-http", "--no-schedule", "--trust-project")
    served = site.run("run")
    assert refused(served)
    assert served[2] == site.run("run", "--local")[2]
    (site.folder / ".env").write_text("TIDEGATE_TRUST_PROJECT=1\n")
    assert refused(site.run("run")), "the project would trust itself"
    (site.folder / ".env").unlink()
    site.change()
    monkeypatch.setenv("TIDEGATE_TRUST_PROJECT", "1")
    site.loads()
