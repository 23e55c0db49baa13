"""Rows of SQL Server's change tables: an update that changes the stream's key has no event that deletes the old row."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.spark]

COLUMNS = {"__$operation": "int", "__$start_lsn": "text", "__$seqval": "text", "id": "int", "code": "text"}


def row(operation, lsn, within, key, code):
    return {
        "__$operation": operation,
        "__$start_lsn": f"0x{lsn:020X}",
        "__$seqval": f"0x{within:020X}",
        "id": key,
        "code": code,
    }


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
@pytest.mark.parametrize("key", ["id", ["id", "code"]])
def test_an_update_that_changes_the_key_waits_in_the_quarantine(log_of, kind, key):
    source = {"path": "events/*.json", "envelope": "sqlserver_cdc", "columns": COLUMNS}
    log = log_of(kind, source=source, key=key, strategy={"kind": "cdc", "bad_events": "quarantine"})
    log.events(
        "1.json",
        *(row(2, 1, number, number, "a") for number in (1, 2, 3, 4)),
        row(3, 2, 1, 1, "a"),
        row(4, 2, 1, 1, "a"),
        row(3, 2, 2, 2, "a"),
        row(4, 2, 2, 9, "a"),
        row(1, 3, 1, 3, "a"),
        row(2, 3, 1, 8, "a"),
        row(4, 4, 1, 4, "a"),
    )
    outcome = log.loaded()
    assert outcome.rows_quarantined == 1
    assert sorted(each["id"] for each in log.read()) == [1, 2, 4, 8]


def test_an_update_that_changes_the_key_stops_the_load(log_of):
    log = log_of(source={"path": "events/*.json", "envelope": "sqlserver_cdc", "columns": COLUMNS}, key="code")
    log.events("1.json", row(2, 1, 1, 1, "a"))
    log.loaded()
    log.events("2.json", row(3, 2, 1, 1, "a"), row(4, 2, 1, 1, "b"))
    outcome = log.run()
    assert outcome.error is not None
    assert outcome.error.code == "check_failed"
    assert "it changes the stream's key, and no event deletes the old row" in outcome.error.message
    assert [each["code"] for each in log.read()] == ["a"]
