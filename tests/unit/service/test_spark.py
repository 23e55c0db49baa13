"""Who is lent the JVM of a service, and when it ends; the process that would keep it is one that does nothing."""

import os
import signal
import socket
import time

import pytest

from tidegate.service import wire
from tidegate.service.processes import memory
from tidegate.service.spark import Spark

ASKED = {"conf": {"spark.master": "local"}, "user": {}, "jars": [], "environment": {"AWS_PROFILE": "test"}}
OTHERS = [{**ASKED, "user": {"spark.sql.shuffle.partitions": "3"}}, {**ASKED, "environment": {"AWS_PROFILE": "prod"}}]


@pytest.fixture
def service(tmp_path):
    """A service whose JVM is started by a process that says where it is, and waits."""

    def keep(wanted, log, tell):
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        tell({"port": 1, "secret": "s", "pid": os.getpid()})
        signal.pause()
        return 0

    found = Spark(log=tmp_path / "log", say=lambda _: None, closing=lambda: None, keep=keep)
    yield found
    found.end()


class Caller:
    """A process that asks; `answer` is what it gets."""

    def __init__(self, service, asked):
        self.service = service
        self.mine, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        service.ask(self.theirs, asked)

    def answer(self):
        deadline = time.monotonic() + 20
        self.mine.settimeout(0.1)
        while time.monotonic() < deadline:
            self.service.rest(time.monotonic(), 1000)
            told = wire.receive(self.mine)
            if told is not None:
                return told[0]
        raise AssertionError("no answer")

    def leaves(self, *, well):
        self.mine.close()
        self.service.returned(self.theirs, well=well)


def test_users_with_the_same_settings_share_one(service):
    one, two = Caller(service, ASKED), Caller(service, ASKED)
    assert one.answer() == two.answer()
    assert service.state()["users"] == 2
    one.leaves(well=True)
    two.leaves(well=True)
    assert service.state()["users"] == 0


@pytest.mark.parametrize("asked", OTHERS, ids=["settings", "credentials"])
def test_who_needs_other_settings_is_refused_and_harms_nobody(service, asked):
    one = Caller(service, ASKED)
    before = one.answer()["pid"]
    other = Caller(service, asked)
    assert "refused" in other.answer()
    other.leaves(well=False)  # it never had a Spark, so it has nothing to say at its end
    one.leaves(well=True)
    again = Caller(service, ASKED)
    assert again.answer()["pid"] == before
    again.leaves(well=True)


@pytest.mark.parametrize("asked", OTHERS, ids=["settings", "credentials"])
def test_nobody_in_the_way_other_settings_get_another_one(service, asked):
    one = Caller(service, ASKED)
    before = one.answer()["pid"]
    one.leaves(well=True)
    other = Caller(service, asked)
    assert other.answer()["pid"] != before
    other.leaves(well=True)


def test_after_a_user_that_was_killed_it_ends_with_its_last_user(service):
    one, two = Caller(service, ASKED), Caller(service, ASKED)
    one.answer()
    two.answer()
    one.leaves(well=False)
    assert "refused" in Caller(service, ASKED).answer(), "what the killed one asked for may still be at work"
    assert service.state()["users"] == 1
    two.leaves(well=True)
    assert service.state() is None


def test_a_spark_that_was_killed_is_told_to_its_user_and_another_starts(service):
    one = Caller(service, ASKED)
    before = one.answer()["pid"]
    os.kill(before, signal.SIGKILL)
    os.waitpid(before, 0)
    service.ended(before)
    assert wire.receive(one.mine) is None, "its right to use it has ended"
    other = Caller(service, {**ASKED, "user": {"spark.sql.shuffle.partitions": "3"}})
    assert other.answer()["pid"] != before
    one.leaves(well=False)
    assert service.state()["users"] == 1, "who lost the first is no user of the second, which goes on"
    other.leaves(well=True)
    assert service.state() is not None


def test_who_dies_while_it_waits_harms_nobody(service):
    waiting = Caller(service, ASKED)
    waiting.leaves(well=False)
    one = Caller(service, ASKED)
    one.answer()
    one.leaves(well=True)
    assert service.state() is not None


def test_the_memory_of_a_process_that_is_gone_is_nothing():
    assert memory(os.getpid()) > 0
    assert memory(2**22 + 1) == 0
