"""A command that is handed over, seen from the shell in which it was typed; the service runs commands of the test."""

import json
import os
import select
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from tidegate.engine.events import Moment, Stage
from tidegate.service import caller, wire
from tidegate.service.events import followed
from tidegate.service.place import Place

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the service needs Linux"),
    pytest.mark.timeout(120),
]
SERVED = Path(__file__).parent / "served.py"
CALLER = "import sys; from tidegate.service.caller import handed_over; code = handed_over(sys.argv[1:]); "
CALLER += "sys.exit(77 if code is None else code)"
"""77 says that the command would run without the service."""


def wait(fulfilled, seconds=30):
    deadline = time.monotonic() + seconds
    while not fulfilled():
        assert time.monotonic() < deadline
        time.sleep(0.02)


class Serving:
    """A service, and the commands that are handed to it."""

    def __init__(self, folder, *words):
        self.folder = folder
        self.calls = []
        self.place = Place.of(folder)
        self.process = subprocess.Popen([sys.executable, SERVED, folder, *words], stdout=subprocess.DEVNULL)
        wait(self._answers)

    def _answers(self):
        connection = self.place.connect()
        if connection is not None:
            connection.close()
        return connection is not None

    def call(self, *words, **options):
        made = subprocess.Popen(
            [sys.executable, "-c", CALLER, "run", *words, f"--project={self.folder}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **options,
        )
        self.calls.append(made)
        return made

    def ask(self, **request):
        connection = self.place.connect()
        with connection:
            wire.send(connection, request, [0, 1, 2] if request["ask"] == "command" else [])
            told = wire.receive(connection)
        return told and told[0]

    def end(self):
        self.process.terminate()
        code = self.process.wait(30)
        for call in self.calls:
            call.kill()
            with call:
                call.wait()
        return code


@pytest.fixture(scope="module")
def serving(tmp_path_factory):
    found = Serving(tmp_path_factory.mktemp("served"))
    yield found
    assert found.end() == 0


@pytest.fixture
def own(tmp_path):
    found = Serving(tmp_path)
    yield found
    found.end()


# `served.py` sees the words as they are: `run`, then those below, then the project.


def test_a_command_has_the_terminal_folder_and_environment_of_its_caller(serving, tmp_path):
    call = serving.call("tell", cwd=tmp_path, env={**os.environ, "OF_THE_CALLER": "a b", "PYTHONIOENCODING": "latin-1"})
    out, err = call.communicate(b"typed", timeout=240)
    assert (out.decode(), err) == (f"{tmp_path} a b typed\n", "über\n".encode("latin-1"))
    assert call.returncode == 0


def test_several_commands_run_side_by_side(serving):
    calls = [serving.call("sleep") for _ in range(4)]
    assert [call.stdout.readline() for call in calls] == [b"asleep\n"] * 4
    for call in calls:
        call.send_signal(signal.SIGINT)
    assert [call.communicate(timeout=240)[0] for call in calls] == [b"woken\n"] * 4


def test_signals_end_the_command_alone(serving):
    first, second = serving.call("sleep"), serving.call("sleep")
    for call in (first, second):
        assert call.stdout.readline() == b"asleep\n"
    first.send_signal(signal.SIGINT)
    assert (first.communicate(timeout=240)[0], first.returncode) == (b"woken\n", 130)
    assert second.poll() is None
    second.send_signal(signal.SIGTERM)
    assert second.wait(30) == 1, "no handler of this command: it dies, as the caller is told"


@pytest.mark.slow
def test_a_command_whose_caller_is_killed_ends(own):
    call = own.call("sleep")
    assert call.stdout.readline() == b"asleep\n"
    assert own.ask(ask="state")["commands"] == 1
    call.kill()
    wait(lambda: own.ask(ask="state")["commands"] == 0)


def test_a_command_that_dies_is_told_as_lost(serving):
    call = serving.call("die")
    _, err = call.communicate(timeout=240)
    assert call.returncode == 1
    assert err.startswith(b"error[service_lost]: ")


def test_a_command_that_breaks_says_so(serving):
    call = serving.call("break")
    _, err = call.communicate(timeout=240)
    assert (call.returncode, err) == (1, b"error[internal]: ValueError: it is broken\n")


@pytest.mark.slow
def test_when_the_service_is_killed_its_commands_end_and_say_so(own):
    call = own.call("sleep")
    assert call.stdout.readline() == b"asleep\n"
    own.process.kill()
    out, err = call.communicate(timeout=240)
    assert (call.returncode, err[:21]) == (1, b"error[service_lost]: ")
    assert out == b"", "it is killed, not interrupted: the registry says so of its run"
    assert (own.place.folder / "service.sock").exists(), "nothing cleaned up"
    assert own.call("exit", "0").wait(30) == 77, "what is left behind is no service"
    again = Serving(own.folder)
    assert again.call("exit", "5").wait(30) == 5
    again.end()
    assert not (own.place.folder / "service.sock").exists()


@pytest.mark.slow
def test_a_command_that_comes_before_the_service_has_begun_waits_for_it(tmp_path):
    place = Place.of(tmp_path)
    claim = place.claim()
    call = subprocess.Popen([sys.executable, "-c", CALLER, "run", "exit", "5", f"--project={tmp_path}"])
    with claim.listening, claim.lock:
        wait(lambda: select.select([claim.listening], [], [], 0)[0])
        numbers = claim.numbers()
        begun = subprocess.Popen([sys.executable, SERVED, tmp_path, "2", ",".join(map(str, numbers))], pass_fds=numbers)
    assert call.wait(60) == 5
    assert place.lock() is None, "the process that inherited the claim holds it"
    assert begun.wait(60) == 0
    with place.lock():  # it is free
        pass


def test_the_socket_is_for_its_user_alone(serving):
    folder = serving.place.folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "service.sock").stat().st_mode) == 0o600


def test_who_calls_is_what_the_kernel_says():
    one, two = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with one, two:
        assert wire.user_of(one) == os.getuid()


def test_there_is_one_service_of_a_project(serving):
    second = subprocess.run(
        [sys.executable, SERVED, serving.folder], capture_output=True, text=True, check=False, timeout=240
    )
    assert (second.returncode, second.stderr) == (1, "another one runs\n")
    assert serving.ask(ask="state")["pid"] == serving.process.pid


@pytest.mark.parametrize(
    ("changed", "why"),
    [({"version": "0.0.1"}, "is Tidegate"), ({"project": "/elsewhere/tidegate.yaml"}, "belongs to tidegate.yaml")],
)
def test_another_version_or_project_is_refused(serving, changed, why):
    request = caller._request(["run"], str(serving.place.project))
    assert why in serving.ask(**{**request, **changed})["refused"]


@contextmanager
def asked(folder):
    """A command of the folder's project, and its connection to a service, which this test plays."""
    place = Place.of(folder)
    with place.lock(), place.listen() as listening:
        call = subprocess.Popen(
            [sys.executable, "-c", CALLER, "run", "--project", str(folder)], stderr=subprocess.PIPE, text=True
        )
        connection, _ = listening.accept()
        _, files = wire.receive(connection, files=3)
        for file in files:
            os.close(file)
        with connection:
            yield call, connection


def test_a_refused_command_runs_without_the_service(tmp_path):
    with asked(tmp_path) as (call, connection):
        wire.send(connection, {"refused": "the service is of another version"})
        assert call.communicate(timeout=240)[1] == "the service is of another version: running without it\n"
        assert call.returncode == 77


def test_a_command_that_a_service_did_not_begin_runs_without_it(tmp_path):
    """As when a project is so wrong that the service left behind for it ends as soon as it has read it."""
    with asked(tmp_path) as (call, connection):
        connection.close()
        assert "ended before it began this command: running without it" in call.communicate(timeout=240)[1]
        assert call.returncode == 77


@pytest.mark.parametrize("sent", [b"", b"no json", b"[]", b'{"ask": "nothing"}', b'{"ask": "command"}'])
def test_nonsense_harms_nobody(serving, sent):
    connection = serving.place.connect()
    with connection:
        connection.send(sent)
        assert wire.receive(connection) is None
    assert serving.ask(ask="state")["pid"] == serving.process.pid


@pytest.mark.slow
def test_a_folder_with_a_long_name_has_a_service(tmp_path):
    folder = tmp_path / ("a" * 120)
    folder.mkdir()
    found = Serving(folder)
    assert found.call("exit", "5").wait(30) == 5
    assert found.end() == 0


@pytest.mark.slow
def test_it_ends_by_itself_when_nobody_calls(tmp_path):
    found = Serving(tmp_path, "2")
    assert found.process.wait(30) == 0
    assert (tmp_path / ".tidegate" / "ended").exists()


def test_events_of_commands_reach_those_who_follow_them(serving):
    with followed(serving.place) as events, followed(serving.place) as others:
        assert serving.ask(ask="state")["commands"] == 0, "it has taken both by now"
        assert serving.call("load").wait(30) == 0
        for queue in (events, others):
            told = [queue.get(timeout=240) for _ in range(2)]
            assert [(each.stream, each.stage, each.moment) for each in told] == [
                ("a", Stage.READ, Moment.START),
                ("a", Stage.READ, Moment.DONE),
            ]
            assert told[1].detail == "7 rows"
    serving.ask(ask="state")
    assert serving.call("load").wait(30) == 0, "nobody follows"


@pytest.mark.parametrize("words", [[], ["status"], ["run", "--local"], ["run", "-h"], ["run", "--help"]])
def test_what_is_not_handed_over(serving, words, monkeypatch):
    monkeypatch.chdir(serving.folder)
    assert caller.handed_over(words) is None


def opened(serving):
    return sum(1 for _ in Path(f"/proc/{serving.process.pid}/fd").iterdir())


def test_a_thousand_states_leave_no_open_file(serving):
    before = opened(serving)
    threads = [threading.Thread(target=lambda: [serving.ask(ask="state") for _ in range(50)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    deadline = time.monotonic() + 20  # it closes a connection when it next looks at it
    while opened(serving) > before + 1 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert opened(serving) <= before + 1
    assert json.dumps(serving.ask(ask="state"))
