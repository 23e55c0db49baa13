"""SQL Server's own logs over random histories: a dict that applies their events is the table at every position."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import simulated_changes
from support.change_logs import Lake, capture_log, tracking_log
from support.simulated_changes import Change, ChangeServer, Column

pytestmark = pytest.mark.slow
COLUMNS = {
    "id": Column(native="bigint", type="BIGINT"),
    "name": Column(native="nvarchar(50)", type="TEXT"),
    "note": Column(native="nvarchar(max)", type="TEXT", large=True),
}
KEYS = st.integers(1, 6)
TEXTS = st.sampled_from(["a", "A", "a ", "", "é", None])
STATEMENTS = st.one_of(
    st.tuples(st.just("put"), KEYS, TEXTS, TEXTS),
    st.tuples(st.just("name"), KEYS, TEXTS),
    st.tuples(st.just("delete"), KEYS),
    st.tuples(st.just("move"), KEYS, KEYS),
    st.tuples(st.just("shift")),
)
TRANSACTIONS = st.lists(STATEMENTS, min_size=1, max_size=4)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), TRANSACTIONS),
        st.tuples(st.just("capture"), st.integers(1, 3)),
        st.tuples(st.just("load"), st.sampled_from([None, 1, 2, 5])),
        st.tuples(st.just("idle")),
    ),
    min_size=1,
    max_size=14,
)
Rows = dict[int, dict[str, Any]]


def statement(rows: Rows, step: tuple[Any, ...]) -> list[Change]:
    """What a step does to a table of those rows; nothing where it cannot."""
    match step:
        case ("put", key, name, note):
            after = {"id": key, "name": name, "note": note}
            return [Change(before=rows.get(key), after=after)] if rows.get(key) != after else []
        case ("name", key, name) if key in rows:
            return [Change(before=rows[key], after={**rows[key], "name": name})]
        case ("delete", key) if key in rows:
            return [Change(before=rows[key], after=None)]
        case ("move", key, other) if key in rows and other not in rows:
            return [Change(before=rows[key], after={**rows[key], "id": other})]
        case ("shift",):
            return [Change(before=row, after={**row, "id": key + 1}) for key, row in sorted(rows.items())]
    return []


def replayed(rows: Rows, changes: list[Change]) -> Rows:
    """The rows after a statement, which removes before it adds."""
    gone = {change.before["id"] for change in changes if change.before is not None}
    kept = {key: row for key, row in rows.items() if key not in gone}
    return kept | {change.after["id"]: dict(change.after) for change in changes if change.after is not None}


def commit(server: ChangeServer, steps: list[tuple[Any, ...]], history: list[tuple[int, Rows]]) -> None:
    rows, statements = dict(history[-1][1]), []
    for step in steps:
        statements.append(statement(rows, step))
        rows = replayed(rows, statements[-1])
    if any(statements):
        history.append((server.commit(*filter(None, statements)), rows))


def at(history: list[tuple[int, Rows]], lsn: str) -> Rows:
    return [rows for place, rows in history if place <= int(lsn, 16)][-1]


@settings(max_examples=25)
@given(STEPS, st.lists(TRANSACTIONS, max_size=3), st.booleans())
def test_a_table_loaded_from_change_tables_is_what_the_source_was_at_its_position(steps, before, by_row) -> None:
    server = simulated_changes.server(columns=COLUMNS, by_row=by_row)
    history: list[tuple[int, Rows]] = [(0, {})]
    for each in before:
        commit(server, each, history)
    server.capture_table()
    lake = Lake()
    for step in [*steps, ("capture", None), ("idle",), ("load", 1), *[("load", 1)] * 80]:
        match step:
            case ("commit", transactions):
                commit(server, transactions, history)
            case ("capture", most):
                server.capture(most)
            case ("idle",) if server.captured == len(server.commits):
                server.idle()
            case ("load", most):
                first, held = lake.state is None, dict(lake.rows)
                span = lake.load(server, capture_log, most=most)
                if first:
                    assert lake.rows == history[-1][1]
                elif not span.slices:
                    assert lake.rows == held
                else:
                    assert lake.rows == at(history, lake.state["lsn"])
                    assert span.events is not None
                    assert "through" not in lake.state
        if step == ("load", 1) and lake.rows == server.rows and int(lake.state["lsn"], 16) >= history[-1][0]:
            break
    assert (lake.rows, lake.refused) == (server.rows, [])


@settings(max_examples=20)
@given(STEPS, st.booleans())
def test_in_a_heap_no_row_is_lost_or_doubled_in_silence(steps, by_row) -> None:
    """Where an update hands keys on from row to row, what cannot be told is refused."""
    server = simulated_changes.server(columns=COLUMNS, in_place=True, by_row=by_row)
    history: list[tuple[int, Rows]] = [(0, {})]
    server.capture_table()
    lake = Lake()
    lake.load(server, capture_log)
    server.tick(5)
    for step in steps:
        if step[0] == "commit":
            commit(server, step[1], history)
            server.capture()
            lake.load(server, capture_log)
            if lake.refused:
                return
            assert lake.rows == history[-1][1]


@settings(max_examples=25)
@given(STEPS, TRANSACTIONS)
def test_a_table_loaded_by_change_tracking_is_what_the_source_is(steps, meanwhile) -> None:
    server = simulated_changes.server(columns=COLUMNS)
    history: list[tuple[int, Rows]] = [(0, {})]
    lake = Lake()
    for step in [*steps, ("load", None)]:
        match step:
            case ("commit", transactions):
                commit(server, transactions, history)
            case ("load", None):
                first, seen = lake.state is None, server.rows.copy()
                lake.load(server, tracking_log, between=lambda: commit(server, meanwhile, history))
                assert first or lake.rows == seen
            case ("load", most):
                lake.load(server, tracking_log, most=most)
    lake.load(server, tracking_log)
    assert (lake.rows, lake.refused) == (server.rows, [])
