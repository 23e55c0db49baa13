"""Other processes that use a registry at the same time; each begins only when all are ready."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import alembic.command  # noqa: F401 - loaded before the race begins, so that all arrive at the migration together
import psycopg  # noqa: F401 - as above

from tidegate.core.position import Position
from tidegate.errors import LeaseHeld, LeaseLost, PositionMoved
from tidegate.registry.store import Registry
from unit.registry.loads import UID, load

SPAWN = multiprocessing.get_context("spawn")


@contextmanager
def spawn(work: Callable[..., None], *arguments: Any, count: int = 1) -> Iterator[tuple[Any, Any]]:
    """The last process, and the queue that every process answers on."""
    answers = SPAWN.Queue()
    ready = SPAWN.Barrier(count, timeout=200)
    processes = [SPAWN.Process(target=work, args=(answers, ready, *arguments), daemon=True) for _ in range(count)]
    for process in processes:
        process.start()
    try:
        yield processes[-1], answers
    finally:
        for process in processes:
            process.kill()
            process.join()
        answers.close()
        answers.join_thread()


def take_and_hold(answers: Any, _ready: Any, url: str, uid: str, ttl: float, check: Any) -> None:
    """Says "held", waits for `check`, says "mine" or "lost"."""
    with Registry.open(url) as registry, registry.lease(uid, ttl=timedelta(seconds=ttl)) as lease:
        answers.put("held")
        check.wait()
        try:
            lease.check()
            answers.put("mine")
        except LeaseLost:
            answers.put("lost")


def take_once(answers: Any, ready: Any, url: str, uid: str) -> None:
    """Says "mine" or "held", and ends its lease when all have tried."""
    with Registry.open(url) as registry:
        ready.wait()
        try:
            with registry.lease(uid):
                answers.put("mine")
                ready.wait()
        except LeaseHeld:
            answers.put("held")
            ready.wait()


def advance_once(answers: Any, ready: Any, url: str, since: Position) -> None:
    """Says "advanced" or "moved"."""
    plan = load(since, through="20")
    with Registry.open(url) as registry:
        ready.wait()
        try:
            registry.advance(plan, snapshot=plan.load_id, table_uuid=None, verified=None)
            answers.put("advanced")
        except PositionMoved:
            answers.put("moved")


def open_once(answers: Any, ready: Any, url: str) -> None:
    """Says "open", or what went wrong."""
    ready.wait()
    try:
        with Registry.open(url) as registry:
            registry.register(uid=UID, name="orders", source="s", target="t")
        answers.put("open")
    except Exception as error:  # noqa: BLE001 - the test shows it
        answers.put(repr(error))
