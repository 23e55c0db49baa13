"""What runners do to each other, whichever database keeps the registry; a suite brings a fixture `url`."""

from __future__ import annotations

import os
import signal
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import insert, text, update

from tidegate.errors import LeaseHeld, LeaseLost
from tidegate.registry.owner import this_process
from tidegate.registry.store import Registry
from tidegate.registry.tables import HEAD, VERSION_TABLE, leases, object_info
from unit.registry.loads import UID, load, publish
from unit.registry.processes import SPAWN, advance_once, open_once, spawn, take_and_hold, take_once


def test_a_held_stream_names_its_holder(registry, url):
    with registry.lease(UID) as lease, Registry.open(url) as other:
        lease.check()
        with pytest.raises(LeaseHeld, match="stream orders is held by") as caught, other.lease(UID):
            pass
        assert caught.value.context["pid"] == os.getpid()
        assert caught.value.context["host"] == this_process().host
        assert caught.value.exit_code == 5
        assert registry.status()[0].held_by == str(this_process())
        with other.lease("another stream"):
            pass
    assert registry.status()[0].held_by is None
    with registry.lease(UID):
        pass


def test_a_lease_ends_with_an_exception_too(registry):
    with pytest.raises(ZeroDivisionError), registry.lease(UID):
        _ = 1 / 0
    with registry.lease(UID):
        pass


def test_two_threads_hold_two_streams(registry):
    together = threading.Barrier(2, timeout=240)
    failures = []

    def work(uid):
        try:
            with registry.lease(uid) as lease:
                together.wait()
                lease.check()
                with pytest.raises(LeaseHeld), registry.lease(uid):
                    pass
                together.wait()
        except BaseException as error:  # noqa: BLE001 - the assertion below shows it
            failures.append(error)

    threads = [threading.Thread(target=work, args=(uid,)) for uid in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_lease_is_renewed_beyond_its_ttl(registry):
    with registry.lease(UID, ttl=timedelta(seconds=2)):
        time.sleep(3)
        with pytest.raises(LeaseHeld), registry.lease(UID):
            pass


def foreign_lease(raw, *, expires_in, **differences):
    me = this_process()
    now = datetime.now(UTC)
    row = {
        "uid": UID,
        "token": "theirs",
        "owner": me.user,
        "host": me.host,
        "host_id": me.host_id,
        "pid": me.pid,
        "process_start": me.process_start,
        "acquired_ts": now,
        "renewed_ts": now,
        "expires_ts": now + timedelta(seconds=expires_in),
        **differences,
    }
    with raw.begin() as connection:
        connection.execute(insert(leases).values(row))


def test_the_lease_of_another_machine_runs_out(registry, raw):
    foreign_lease(raw, expires_in=60, host="elsewhere", host_id="elsewhere/1", pid=2**22 + 1)
    with pytest.raises(LeaseHeld, match="on elsewhere"), registry.lease(UID):
        pass
    with raw.begin() as connection:
        connection.execute(update(leases).values(expires_ts=datetime.now(UTC) - timedelta(seconds=1)))
    with registry.lease(UID) as lease:
        lease.check()


def test_a_reused_process_number_holds_nothing(registry, raw):
    foreign_lease(raw, expires_in=60, process_start="1")
    with registry.lease(UID) as lease:
        lease.check()


def test_a_process_of_another_pid_namespace_is_not_judged(registry, raw):
    foreign_lease(raw, expires_in=60, host_id="same-name/other-boot/pid:[1]", process_start="1")
    with pytest.raises(LeaseHeld), registry.lease(UID):
        pass


def test_a_lost_lease_is_noticed_and_not_given_back(registry, raw):
    with registry.lease(UID) as lease:
        with raw.begin() as connection:
            connection.execute(update(leases).values(token="theirs"))
        with pytest.raises(LeaseLost):
            lease.check()
    with pytest.raises(LeaseHeld), registry.lease(UID):
        pass


def test_a_killed_holder_is_taken_over_at_once(registry, url):
    with spawn(take_and_hold, url, UID, 60.0, SPAWN.Event()) as (process, answers):
        assert answers.get(timeout=200) == "held"
        with pytest.raises(LeaseHeld, match=f"pid {process.pid}"), registry.lease(UID):
            pass
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        with registry.lease(UID) as lease:
            lease.check()


def test_a_frozen_holder_learns_that_it_lost(registry, url):
    check = SPAWN.Event()
    with spawn(take_and_hold, url, UID, 1.0, check) as (process, answers):
        assert answers.get(timeout=200) == "held"
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(1.3)
        with registry.lease(UID):
            os.kill(process.pid, signal.SIGCONT)
            check.set()
            assert answers.get(timeout=200) == "lost"


# Several processes at once


@pytest.mark.usefixtures("registry")
def test_of_many_processes_one_gets_the_lease(url):
    with spawn(take_once, url, UID, count=4) as (_, answers):
        got = sorted(answers.get(timeout=200) for _ in range(4))
    assert got == ["held", "held", "held", "mine"]


def test_of_many_processes_one_advances(registry, url):
    first = publish(registry, load())
    with spawn(advance_once, url, first, count=4) as (_, answers):
        got = sorted(answers.get(timeout=200) for _ in range(4))
    assert got == ["advanced", "moved", "moved", "moved"]
    assert registry.last_sequence(UID) == 2
    assert len(registry.positions(UID)) == 2
    assert registry.open_plans(UID) == []


def test_many_processes_open_a_new_registry_at_once(url, raw):
    with spawn(open_once, url, count=4) as (_, answers):
        got = [answers.get(timeout=200) for _ in range(4)]
    assert got == ["open"] * 4
    with raw.connect() as connection:
        assert connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).all() == [(HEAD,)]
        assert len(connection.execute(object_info.select()).all()) == 1
