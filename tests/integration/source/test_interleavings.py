"""Random histories of three sessions on a real PostgreSQL: no order of begin, write, load and commit loses a row."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from integration.source.loading import Careful, Loader, Naive, Shop
from tidegate.strategies.sequence import Sequence
from tidegate.strategies.watermark import Watermark

pytestmark = [pytest.mark.postgres, pytest.mark.slow, pytest.mark.usefixtures("no_settling")]
SESSIONS = 3
STEP = st.tuples(
    st.integers(0, SESSIONS - 1), st.sampled_from(["begin", "insert", "update", "save", "commit", "rollback"])
)
HISTORY = st.lists(st.one_of(STEP, st.just((0, "load"))), min_size=4, max_size=20)
ARGUMENTS = {
    "deadline": None,
    "derandomize": True,
    "database": None,
    "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
}
SQL = {
    "insert": "INSERT INTO orders (name) VALUES ('new')",
    "save": "SAVEPOINT one; INSERT INTO orders (name) VALUES ('inner'); RELEASE one",
    "update": "UPDATE orders SET name = name || '+', updated_at = now() WHERE id = "
    "(SELECT id FROM orders ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)",
}


def play(shop: Shop, loader: Loader, history: list[tuple[int, str]], *, updates: bool) -> None:
    """One history on an empty table, then everybody ends and one load runs in peace."""
    for session in shop.sessions:
        session.execute("ROLLBACK") if session.info.transaction_status else None
    shop.sessions[0].execute("TRUNCATE orders RESTART IDENTITY")
    opened = [False] * SESSIONS
    for number, step in history:
        session = shop.sessions[number]
        if step == "load":
            loader.load()
        elif step == "begin" and not opened[number]:
            session.execute("BEGIN")
            opened[number] = True
        elif step in ("commit", "rollback") and opened[number]:
            session.execute(step)
            opened[number] = False
        elif step == "insert" or (step == "save" and opened[number]) or (step == "update" and updates):
            session.execute(SQL[step])
    for session, is_open in zip(shop.sessions, opened, strict=True):
        if is_open:
            session.execute("COMMIT")
    loader.load()


@pytest.fixture
def writers(shop: Shop) -> Shop:
    """The shop with its three sessions open."""
    for _ in range(SESSIONS):
        shop.session()
    return shop


@settings(max_examples=60, **ARGUMENTS)
@given(history=HISTORY)
def test_watermark(writers: Shop, history: list[tuple[int, str]]) -> None:
    loader = Careful(url=writers.url, strategy=Watermark(column="updated_at"))
    play(writers, loader, history, updates=True)
    assert loader.rows == writers.rows()


@settings(max_examples=60, **ARGUMENTS)
@given(history=HISTORY)
def test_sequence(writers: Shop, history: list[tuple[int, str]]) -> None:

    loader = Careful(url=writers.url, strategy=Sequence(column="id", wait=timedelta(0)))
    play(writers, loader, history, updates=False)
    assert loader.rows == writers.rows()


def test_the_usual_load_fails_on_such_a_history(writers: Shop) -> None:
    history = [(0, "begin"), (0, "insert"), (1, "insert"), (0, "load"), (0, "commit")]
    for column in ("updated_at", "id"):
        loader = Naive(url=writers.url, column=column)
        play(writers, loader, history, updates=True)
        assert loader.rows != writers.rows()
