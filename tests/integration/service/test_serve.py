"""`tidegate serve` as a user has it: commands from another shell, beside the same commands without a service."""

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from support.workspace import SqliteShop, Workspace
from tidegate.service import wire
from tidegate.service.place import Place

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.timeout(500),
    pytest.mark.skipif(sys.platform != "linux", reason="the service needs Linux"),
]
TIDEGATE = [sys.executable, "-m", "tidegate"]


class Site:
    """A project of one table, its service, and shells in which commands are typed."""

    def __init__(self, folder, **rest):
        self.workspace = Workspace(folder=folder)
        self.folder = folder
        self.shop = SqliteShop(path=folder / "shop.db")
        self.shop.sql(
            "create table orders (id integer primary key not null, amount integer, updated_at timestamp not null)",
            "insert into orders select value, value, '2025-01-01' from generate_series(1, 500)"
            if sqlite3.sqlite_version_info >= (3, 50)
            else "insert into orders with recursive n(i) as (select 1 union all select i + 1 from n where i < 500) "
            "select i, i, '2025-01-01' from n",
        )
        self.write(**rest)
        self.service = None

    def write(self, **rest):
        stream = {
            "source": {"connection": "shop", "table": "orders"},
            "target": "lake.shop.orders",
            "key": ["id"],
            "strategy": {"kind": "watermark", "column": "updated_at", "clock": "database"},
            "write": "merge",
            **rest.pop("stream", {}),
        }
        self.workspace.write({"orders": stream}, connections={"shop": {"url": self.shop.url}}, **rest)

    def change(self, rows=10):
        now = datetime.now(UTC).replace(tzinfo=None).isoformat(" ")
        self.shop.sql(f"update orders set amount = amount + 1, updated_at = '{now}' where id <= {rows}")
        time.sleep(1.1)

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
        return {row["id"]: row["amount"] for row in self.workspace.rows("shop.orders")}

    def there(self):
        return dict(self.shop.rows("select id, amount from orders"))


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))


@pytest.fixture
def site(tmp_path):
    found = Site(tmp_path)
    yield found
    found.end()


def shape(text):
    """Of an output what is the same each time: no identifiers, times and durations, and no start of Spark."""
    text = re.sub(r"[0-9a-f]{32}|\d{4}-\d\d-\d\d[ T][\d:.]+(Z|\+00:00)?|\d+\.\d+|[\d,]+ rows/s", "#", text)
    text = re.sub(r".*: starting Spark\n", "", text)  # which a service has done before
    return re.sub(r" +|-{2,}", " ", text)


def test_commands_say_the_same_with_and_without_a_service(tmp_path):
    """The same story in two folders, every command of it in both."""
    commands = [
        ["run"],
        ["run", "--json"],
        ["run", "nobody"],
        ["run", "--no-such-option"],
        ["verify", "--level", "rows"],
        ["verify", "--json"],
        ["maintain", "--dry-run"],
        ["backfill", "orders", "--from", "2025-01-01", "--to", "2025-01-02"],
        ["backfill", "list"],
        ["quarantine", "list"],
        ["rollback", "orders", "--to", "0"],
        ["run", "--full-refresh"],
        ["run", "--full-refresh", "--yes", "--quiet"],
    ]
    said = {}
    for name in ("alone", "served"):
        folder = tmp_path / name
        folder.mkdir()
        site = Site(folder)
        if name == "served":
            site.serve("--no-schedule")
        said[name] = [site.run(*words) for words in commands]
        assert site.rows() == site.there()
        if name == "served":
            assert site.state()["spark"]["users"] == 0
        site.end()
    for words, one, two in zip(commands, said["alone"], said["served"], strict=True):
        assert one[0] == two[0], (words, one, two)
        if "--json" in words:
            alone, served = json.loads(one[1]), json.loads(two[1])
            assert served.keys() == alone.keys()
            assert [each["outcome"] for each in served["streams"] if "outcome" in each] == [
                each["outcome"] for each in alone["streams"] if "outcome" in each
            ]
        else:
            assert shape(two[1]) == shape(one[1]), words
        assert shape(two[2]).replace(str(tmp_path / "served"), "") == shape(one[2]).replace(
            str(tmp_path / "alone"), ""
        ), words


def test_an_interruption_ends_one_command_and_what_spark_does_for_it(site):
    site.serve("--no-schedule")
    assert site.run("run")[0] == 0
    site.change(500)
    with site.start("run") as command:
        site.until(lambda: (site.state()["spark"] or {}).get("users") == 1)
        command.send_signal(signal.SIGINT)
        command.communicate(timeout=60)
    assert command.returncode == 130
    assert '"last_outcome": "interrupted"' in site.run("status", "--json")[1]
    # A command that did not end in time was killed, and its Spark with it.
    assert (site.state()["spark"] or {"users": 0})["users"] == 0
    assert site.run("run")[0] == 0
    assert site.rows() == site.there()


@pytest.mark.parametrize("times", [3, pytest.param(20, marks=pytest.mark.exhaustive)])
def test_the_service_is_killed_in_the_middle_of_loads_and_nothing_is_lost(site, times):
    site.serve("--no-schedule")
    assert site.run("run")[0] == 0
    for number in range(times):
        site.change(50)
        with site.start("run") as command:
            time.sleep(0.2 + 2.5 * number / times)
            site.service.kill()
            site.service.wait()
            _, err = command.communicate(timeout=60)
        assert command.returncode in (0, 1)
        assert command.returncode == 0 or "error[service_lost]" in err
        assert "interrupted" not in err + site.run("history", "orders", "--limit", "1")[1], "nobody pressed Ctrl-C"
        site.serve("--no-schedule")
    code, _, err = site.run("run")
    assert code == 0, err
    assert site.rows() == site.there()
    assert site.run("verify", "--level", "rows")[0] == 0


def test_a_killed_command_retires_the_spark_that_may_work_for_it(site):
    site.serve("--no-schedule")
    assert site.run("run")[0] == 0
    before = site.state()["spark"]["pid"]
    site.change(500)
    with site.start("run") as command:
        site.until(lambda: (site.state()["spark"] or {}).get("users") == 1)
        kids = subprocess.run(["pgrep", "-P", str(site.service.pid)], capture_output=True, text=True, check=True).stdout
        os.kill(max(map(int, kids.split())), signal.SIGKILL)
        assert "error[service_lost]" in command.communicate(timeout=60)[1]
    site.until(lambda: site.state()["spark"] is None)
    assert site.run("run")[0] == 0
    assert site.rows() == site.there()
    assert site.state()["spark"]["pid"] != before


def test_a_spark_that_was_killed_is_replaced_for_commands_and_schedule(site):
    site.write(stream={"schedule": {"every": "1s"}})
    site.serve()
    site.until(lambda: "orders: loaded" in site.log())
    before = site.state()["spark"]["pid"]
    os.kill(before, signal.SIGKILL)
    site.until(lambda: not Path(f"/proc/{before}").exists())
    site.change()
    site.until(lambda: site.rows() == site.there())
    assert site.state()["spark"]["pid"] != before
    assert site.run("verify", "--level", "rows")[0] == 0
    assert "error[" not in site.log()


def test_a_command_that_lost_its_spark_goes_on_with_another(site):
    site.serve("--no-schedule")
    assert site.run("run")[0] == 0
    site.change(500)
    with site.start("run") as command:
        site.until(lambda: (site.state()["spark"] or {}).get("users") == 1)
        os.kill(site.state()["spark"]["pid"], signal.SIGKILL)
        _, err = command.communicate(timeout=120)
    assert command.returncode == 0, err
    assert "attempt 2 of 3 after spark_lost: " in err
    assert "internal" not in err
    assert site.rows() == site.there()
    assert site.run("verify", "--level", "rows")[0] == 0


@pytest.mark.parametrize("where", [[], ["--local"]], ids=["service", "local"])
def test_a_command_whose_stdout_is_closed_runs_and_says_nothing(site, where):
    site.serve("--no-schedule")
    command = ["sh", "-c", 'exec "$@" >&-', "sh", *TIDEGATE, "run", "--json", *where]
    done = subprocess.run(command, cwd=site.folder, capture_output=True, text=True, check=False, timeout=200)
    assert (done.returncode, done.stdout) == (0, "")
    assert "Traceback" not in done.stderr
    assert "error[" not in done.stderr
    assert site.rows() == site.there()


def test_two_commands_use_one_spark_side_by_side(site):
    site.serve("--no-schedule")
    assert site.run("run")[0] == 0
    with site.start("verify", "--json") as one, site.start("verify", "--level", "rows", "--json") as two:
        said = [json.loads(each.communicate(timeout=100)[0]) for each in (one, two)]
    assert [each["streams"][0]["equal"] for each in said] == [True, True]
    assert site.state()["spark"]["users"] == 0


def test_spark_has_the_credentials_of_who_asks(site, monkeypatch):
    site.serve("--no-schedule")
    assert site.run("run")[0] == 0
    before = site.state()["spark"]["pid"]
    site.change()
    monkeypatch.setenv("AWS_PROFILE", "of-another-shell")
    assert site.run("run")[0] == 0
    now = site.state()["spark"]["pid"]
    assert now != before
    assert b"AWS_PROFILE=of-another-shell\0" in Path(f"/proc/{now}/environ").read_bytes()
    assert site.rows() == site.there()


def test_the_schedule_goes_on_with_a_changed_project_once_it_is_valid(site):
    site.write(stream={"schedule": {"every": "1s"}})
    site.serve()
    site.until(lambda: "orders: loaded" in site.log())
    site.write(stream={"schedule": {"evry": "1s"}})
    site.until(lambda: "is not valid: the service keeps using the previous one" in site.log())
    assert "did you mean 'every'?" in site.log()
    site.change()
    site.until(lambda: site.rows() == site.there())
    site.write(stream={"schedule": {"every": "2s"}})
    site.until(lambda: "was changed: the service goes on with it" in site.log())
    site.change()
    site.until(lambda: site.rows() == site.there())


def test_a_source_that_does_not_answer_while_a_changed_project_is_checked_holds_nothing_up(site):
    site.write(stream={"schedule": {"every": "1s"}})
    site.serve()
    site.until(lambda: "orders: loaded" in site.log())
    with socket.create_server(("127.0.0.1", 0)) as silent:
        dead = {"url": f"postgresql://u@127.0.0.1:{silent.getsockname()[1]}/shop"}
        listed = {"source": {"connection": "dead", "table": "public.*"}, "target": "lake.dead.{table}"}
        listed |= {"strategy": "full", "write": "replace"}
        file = site.folder / "tidegate.yaml"
        project = yaml.safe_load(file.read_text(encoding="utf-8"))
        project["connections"]["dead"] = dead
        project["streams"]["dead.*"] = listed
        file.write_text(yaml.safe_dump(project), encoding="utf-8")
        silent.settimeout(30)
        asked, _ = silent.accept()  # the check asks which tables there are, and gets no answer
        with asked:
            assert site.state()["commands"] == 0, "who calls is answered"
            assert "was changed" not in site.log()
            site.change()
            site.until(lambda: site.rows() == site.there(), 30)
            site.write(stream={"schedule": {"every": "2s"}})
            site.until(lambda: "was changed: the service goes on with it" in site.log())


def test_an_idle_spark_ends_and_starts_again(site):
    site.write(service={"idle_stop": "1s"})
    site.serve("--no-schedule")
    site.until(lambda: "Spark was idle for 1 s and is ended" in site.log())
    assert site.state()["spark"] is None
    assert site.run("run")[0] == 0
    assert site.rows() == site.there()


def test_a_run_leaves_a_service_behind_for_a_while(site):
    site.write(keep_warm="4s")
    assert site.run("run")[0] == 0
    place = Place.of(site.folder)
    site.until((place.folder / "service.sock").exists)
    site.change()
    assert site.run("run")[0] == 0
    assert site.rows() == site.there()
    site.until(lambda: not (place.folder / "service.sock").exists())
    assert site.run("run", "--local")[0] == 0
    time.sleep(1)
    assert not (place.folder / "service.sock").exists(), "who wants to run alone leaves nothing behind"


def test_the_second_run_uses_the_spark_that_the_first_one_left_behind(site):
    """It takes the one that was started for it, and starts none beside it while the service begins."""
    site.write(keep_warm="2m")
    assert site.run("run")[0] == 0
    place = Place.of(site.folder)
    site.until((place.folder / "service.sock").exists)
    site.change()
    code, _, err = site.run("run")
    first = site.state()
    try:
        assert (code, site.rows()) == (0, site.there())
        site.change()
        code, _, err = site.run("run")
        assert (code, site.rows(), "starting Spark" in err) == (0, site.there(), False)
        assert site.state()["spark"]["pid"] == first["spark"]["pid"]
    finally:
        os.kill(first["pid"], signal.SIGTERM)
        site.until(lambda: not (place.folder / "service.sock").exists())


def test_a_second_service_says_which_one_runs(site):
    site.serve("--no-schedule")
    code, _, err = site.run("serve")
    assert code == 2
    assert f"a service of this project runs already: process {site.service.pid} since " in err
