"""What SQL Server's own logs refuse, because an answer would be wrong and look right."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support import simulated_changes
from support.change_logs import Lake, capture_log, tracking_log
from support.simulated_changes import ORDERS, ChangeServer
from tidegate.errors import ConfigError, HistoryGone, SchemaRefused, SourceError


@pytest.fixture
def server() -> ChangeServer:
    found = simulated_changes.server()
    found.commit(found.insert({"id": 1, "name": "a"}, {"id": 2, "name": "b"}))
    found.capture_table()
    return found


def changed(server: ChangeServer) -> None:
    server.tick(5)
    server.commit(server.update(1, name="changed"))
    server.capture()


def test_changes_that_the_cleanup_job_removed_are_missed(server: ChangeServer) -> None:
    lake = Lake()
    lake.load(server, capture_log)
    changed(server)
    server.clean_up(f"{server.lsn:020X}")
    with pytest.raises(HistoryGone, match="the cleanup job has removed"):
        lake.load(server, capture_log)


def test_changes_that_are_removed_while_they_are_read_are_missed(server: ChangeServer) -> None:
    lake = Lake()
    lake.load(server, capture_log)
    changed(server)
    with pytest.raises(HistoryGone, match="the cleanup job has removed"):
        lake.load(server, capture_log, between=lambda: server.clean_up(f"{server.lsn + 1:020X}"))


@pytest.mark.parametrize("later", [0, 3])
def test_a_database_that_was_restored_is_noticed(server: ChangeServer, later: int) -> None:
    """Even where new commits have passed the position."""
    tracked, lake, before = Lake(), Lake(), server.lsn
    for _ in range(2):
        lake.load(server, capture_log)
        tracked.load(server, tracking_log)
        changed(server)
    server.restore(before)
    for _ in range(later):
        changed(server)
    for each, log in ((lake, capture_log), (tracked, tracking_log)):
        with pytest.raises(HistoryGone) as found:
            each.load(server, log)
        assert found.value.context["restored"]


def test_an_instance_that_is_created_again_or_ended_is_another_log(server: ChangeServer) -> None:
    lake = Lake()
    lake.load(server, capture_log)
    server.capture_table()
    with pytest.raises(HistoryGone, match="created again"):
        lake.load(server, capture_log)
    server.disable()
    with pytest.raises(HistoryGone, match="are not captured any more"):
        lake.load(server, capture_log)
    with pytest.raises(ConfigError, match="are not captured") as found:
        Lake().load(server, capture_log)
    assert "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo'" in found.value.hint


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ({"captured": False}, "does not capture 'amount'"),
        ({"captured_as": "decimal(9,2)"}, "another type than the table"),
        ({"computed": True}, "NULL for every value of a computed column"),
        ({"native": "varchar(20)", "type": "TEXT", "foreign": True}, "collation is not the database's"),
    ],
)
def test_columns_whose_captured_values_are_not_the_tables_are_refused(column, words: str) -> None:
    server = simulated_changes.server(columns={**ORDERS, "amount": replace(ORDERS["amount"], **column)})
    server.capture_table()
    with pytest.raises(SchemaRefused, match=words):
        Lake().load(server, capture_log)


def test_a_job_that_stands_still_is_late_and_nothing_is_unchanged(server: ChangeServer) -> None:
    lake = Lake()
    lake.load(server, capture_log)
    server.commit(server.delete(1))
    server.tick(3600)
    with capture_log(server) as log:
        assert not log.after(lake.state, most=None).slices
        assert "has recorded nothing for 60 minutes" in log.notes()[0]
        assert (log.lag(lake.state).events, log.lag(lake.state).seconds) == (None, 3602)


def test_a_key_that_rows_hand_on_is_not_lost_in_silence() -> None:
    columns = {name: column for name, column in ORDERS.items() if not column.large}
    server = simulated_changes.server(columns=columns, in_place=True, by_row=True)
    server.commit(server.insert({"id": 1}, {"id": 2}))
    server.capture_table()
    lake = Lake()
    lake.load(server, capture_log)
    server.tick(5)
    server.commit([*server.update(1, id=2), *server.update(2, id=3)])
    server.capture()
    lake.load(server, capture_log)
    assert [event.deleted for event in lake.refused] == [True]
    assert sorted(lake.rows) == [2, 3]


def test_change_tracking_that_began_again_is_noticed(server: ChangeServer) -> None:
    lake = Lake()
    lake.load(server, tracking_log)
    server.truncate()
    with pytest.raises(HistoryGone, match="the table was truncated"):
        lake.load(server, tracking_log)


def test_change_tracking_needs_what_it_is_proven_by(server: ChangeServer) -> None:
    server.fork = None
    with pytest.raises(SourceError, match="which history the database is on") as found:
        Lake().load(server, tracking_log)
    assert "GRANT VIEW ANY DATABASE TO [loader]" in found.value.hint
    server.on("change_tracking_databases", [(1, 1, 0)])
    with pytest.raises(SourceError) as found:
        Lake().load(server, tracking_log)
    assert "GRANT VIEW CHANGE TRACKING ON [dbo].[orders] TO [loader]" in found.value.hint


def test_change_tracking_by_a_text_is_refused() -> None:
    columns = {"id": replace(ORDERS["name"], native="nvarchar(20)"), "name": ORDERS["name"]}
    with pytest.raises(ConfigError, match="needs a key of integers"):
        Lake().load(simulated_changes.server(columns=columns), tracking_log)
