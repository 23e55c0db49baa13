"""A log in files through whole loads: what is applied, what is superseded, what stops, and how a lost log is mended."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from support.no_spark import without_spark
from tidegate.cli.app import main

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def put(sequence, key, name, operation="U", **more):
    return {"operation": operation, "sequence": sequence, "id": key, "name": name, **more}


def test_a_run_drains_the_log_in_loads_of_so_many_events_and_its_lag_is_told_without_spark(log_of, capsys):
    columns = {"operation": "text", "sequence": "bigint", "id": "bigint", "name": "text"}
    log = log_of(
        source={"path": "events/*.json", "envelope": "rows", "columns": columns},
        strategy={"kind": "cdc", "max_events": 2},
    )
    for number in range(3):
        log.events(f"{number}.json", put(2 * number, number, "a"), put(2 * number + 1, 0, f"b{number}"))
    drained = log.loaded()
    assert (drained.rows_read, drained.rows_inserted, drained.rows_superseded) == (6, 3, 1)
    assert (drained.log_taken, drained.log_behind, drained.position["sequence"]) == (3, 0, 3)
    assert log.rows() == [(0, "b2"), (1, "a"), (2, "a")]
    log.events("4.json", put(10, 4, "c"), put(11, 5, "d"))
    with without_spark():
        (told,) = log.project().status()
        assert main(["status", "--project", str(log.workspace.folder)]) == 0
    assert (told.lag_events, told.lag_error) == (2, None)
    assert 0 <= told.lag_seconds < 60
    assert "2 events, " in capsys.readouterr().out
    (log.folder / "2.json").unlink()
    (told,) = log.project().status()
    assert (told.lag_events, told.lag_error["code"]) == (None, "history_gone")
    assert "tidegate resync orders" in told.lag_error["hint"]


BAD = (
    b'{"operation": "U", "sequence": 1, "id": 1, "name": "good"}\n'
    b"{no json}\n"
    b'{"operation": "U", "sequence": 2, "id": null, "name": "secret"}\n'
    b'{"operation": "X", "sequence": 2, "id": 7, "name": "secret"}\n'
    b'{"operation": "U", "sequence": null, "id": 7, "name": "secret"}\n'
    b'{"operation": "U", "sequence": -1, "id": 7, "name": "secret"}\n'
    b'{"operation": "U", "sequence": 3, "id": "seven", "name": "secret"}\n'
    b'{"operation": "U", "sequence": 3, "id": 9999999999999999999999, "name": "secret"}\n'
    b'{"operation": "U", "sequence": 3, "id": 7, "name": "secret", "strange": 1}\n'
    b'{"operation": "U", "sequence": 3, "id": 7, "name": "\xff\xfe"}\n'
    b"[1, 2]\n"
)


def test_what_cannot_be_taken_stops_the_load_and_says_where_never_what(log_of):
    columns = {"operation": "text", "sequence": "bigint", "id": "bigint", "name": "text"}
    log = log_of(source={"path": "events/*.json", "envelope": "rows", "columns": columns})
    log.raw("1.json", BAD)
    stopped = log.run()
    assert (stopped.outcome, stopped.error.code, stopped.error.exit_code) == ("stopped", "check_failed", 4)
    assert "1.json: " in stopped.error.message, "where the first ones stand"
    assert "secret" not in stopped.error.message
    aside = log.loaded(options={"bad_events": "quarantine"})
    assert (aside.rows_read, aside.rows_quarantined, aside.rows_superseded, aside.rows_inserted) == (11, 10, 0, 1)
    assert len(log.rows("orders__tidegate_quarantine")) == 10

    log.events("2.json", put(5, 1, "one"), put(5, 1, "another"))
    assert log.run().error.code == "duplicate_keys", "two different events with the same order"
    log.events("2.json", put(6, None, None, "TRUNCATE"))
    assert "truncate is stop" in log.run(options={"truncate": "stop"}).error.message
    ignored = log.loaded(options={"truncate": "ignore"})
    assert (ignored.rows_superseded, log.rows()) == (1, [(1, "good")])
    log.events("3.json", put(7, 2, "after"), put(6, None, None, "T"), put(5, 3, "before"))
    emptied = log.loaded(options={"truncate": "apply"})
    assert (emptied.rows_deleted, emptied.rows_superseded, log.rows()) == (1, 1, [(2, "after")])
    log.events("4.json", put(4, 9, "older than the truncate"))
    assert (log.loaded().rows_superseded, log.rows()) == (1, [(2, "after")])


def test_a_lost_log_stops_and_is_loaded_anew_from_what_is_left(log_of, tmp_path, capsys):
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database, database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, name TEXT)")
        database.execute("INSERT INTO orders VALUES (1, 'a'), (2, 'c')")
    source = {"path": "events/*.json", "envelope": "rows", "database": "shop", "table": "orders"}
    log = log_of(source=source, connections={"shop": "sqlite:///shop.db"})
    log.events("1.json", put(1, 1, "a"), put(2, 3, "x"))
    log.events("2.json", put(3, 2, "c"))
    log.loaded()
    with log.project() as project:
        (found,) = project.verify("orders", level="rows").streams
    assert (found.equal, found.rows_different) == (False, 1), "row 3 is not in the table that the log is of"

    (log.folder / "2.json").unlink()
    log.events("3.json", put(4, 3, None, "D"))
    before = log.rows()
    stopped = log.run()
    assert (stopped.error.code, stopped.error.exit_code) == ("history_gone", 4)
    assert stopped.error.hint == "Run `tidegate resync orders`."
    assert log.rows() == before
    resync = ["resync", "orders", "--project", str(tmp_path)]
    assert (main(resync), "--replace --yes" in capsys.readouterr().err) == (4, True)
    assert main([*resync, "--replace"]) == 2, "rows are replaced only if one says yes"
    with log.project() as project:
        (outcome,) = project.resync("orders", replace=True).streams
    assert (outcome.outcome, outcome.verified, outcome.write) == ("loaded", True, "overwrite")
    assert log.rows() == [(1, "a")]
    log.events("4.json", put(3, 2, "c"), put(2, 3, "x"))
    assert (log.loaded().rows_superseded, log.rows()) == (1, [(1, "a"), (2, "c")]), "what it applied anew is kept"


def test_what_is_kept_is_written_anew_and_forgotten_in_time(log_of):
    log = log_of(strategy={"kind": "cdc", "remember": "0s", "compact_after": 2})
    for number in range(1, 4):
        log.events(f"{number}.json", put(10 * number, number, "x"), put(10 * number + 1, 1, f"v{number}"))
        log.loaded()
    kept = log.rows("orders__tidegate_applied")
    marks = {row[-1]: row[1] for row in kept if row[0] is None}
    assert list(marks) == ["horizon"]
    assert int(marks["horizon"]) == 21, "the newest order that was forgotten"
    assert {row[0] for row in kept if row[0] is not None} == {1, 3}, "only the last load's keys are left"
    log.events("4.json", put(20, 2, "stale"), put(15, 5, "too late"), put(31, 1, "v3"), put(40, 6, "new"))
    assert (log.loaded().rows_superseded, [row[0] for row in log.rows()]) == (3, [1, 2, 3, 6])
