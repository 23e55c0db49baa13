"""A table of events as a log, in either format: its versions are applied once, and one that lost events stops."""

from __future__ import annotations

import shutil

import pytest

from support.no_spark import without_spark
from tidegate.spark.session import Sessions

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

COLUMNS = "(op string, lsn bigint, id bigint, name string)"
FED = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
COMPACTED = "CALL lake.system.rewrite_data_files(table => 'src.events', options => map('rewrite-all', 'true'))"
EXPIRED = "CALL lake.system.expire_snapshots(table => 'src.events', older_than => now(), retain_last => 1)"


class Events:
    """A table of events that a hand which is not Tidegate's adds to, and the table that they make."""

    def __init__(self, log_of, kind, tmp_path):
        named = {"iceberg": "lake.src.events"} if kind == "iceberg" else {"delta": "tables/events"}
        envelope = {"kind": "rows", "operation": "op", "sequence": "lsn"}
        self.log = log_of(kind, source={**named, "envelope": envelope})
        self.kind = kind
        self.place = tmp_path / "tables" / "events"
        self.name = "lake.src.events" if kind == "iceberg" else f"delta.`{self.place}`"
        with self.log.project() as project:
            lakes = [lake.spark_conf() for lake in project.lakes.values()]
        (tmp_path / ".tidegate").mkdir(exist_ok=True)
        self.session = Sessions(borrowed=self.log.spark, lakes=lakes).load_session()
        self.session.conf.set("spark.sql.shuffle.partitions", "2")
        if kind == "iceberg":
            self.sql("CREATE NAMESPACE IF NOT EXISTS lake.src")

    def make(self, properties=FED):
        more = properties if self.kind == "delta" else ""
        self.sql(f"CREATE TABLE {self.name} {COLUMNS} USING {self.kind} {more}")

    def sql(self, *statements):
        for statement in statements:
            self.session.sql(statement).collect()

    def add(self, *events):
        self.sql(f"INSERT INTO {self.name} VALUES {', '.join(map(str, events))}")


@pytest.fixture(params=["iceberg", "delta"])
def events(request, log_of, tmp_path):
    found = Events(log_of, request.param, tmp_path)
    found.make()
    return found


def test_versions_are_applied_once_until_events_are_deleted(events):
    log = events.log
    events.add(("I", 1, 1, "a"), ("I", 2, 2, "b"), ("U", 4, 1, "c"))
    first = log.loaded()
    assert (first.rows_read, first.rows_inserted, first.rows_superseded) == (3, 2, 1)
    with without_spark():
        assert log.run().outcome == "unchanged", "found without Spark"
    events.add(("D", 5, 2, "x"), ("U", 3, 1, "late"))
    events.add(("I", 6, 3, "d"))
    with log.project() as project:
        (told,) = project.status()
        assert (told.lag_events, told.lag_error) == (3, None)
    second = log.loaded()
    assert (second.rows_read, second.rows_deleted, second.rows_inserted, second.rows_superseded) == (3, 1, 1, 1)
    assert log.rows() == [(1, "c"), (3, "d")]

    # Compaction brings no event, and the version that was read may go.
    events.sql(COMPACTED if events.kind == "iceberg" else f"OPTIMIZE {events.name}")
    quiet = log.loaded()
    assert (quiet.rows_read, quiet.rows_inserted) == (0, 0)
    if events.kind == "iceberg":
        events.sql(EXPIRED)
    events.add(("D", 9, 3, "x"))
    assert (log.loaded().rows_read, log.rows()) == (1, [(1, "c")])

    events.sql(f"DELETE FROM {events.name} WHERE id = 1")
    events.add(("I", 10, 4, "e"))
    stopped = log.run()
    assert (stopped.error.code, stopped.error.exit_code) == ("history_gone", 4)
    assert "were changed or deleted after version" in stopped.error.message
    assert stopped.error.hint == "Run `tidegate resync orders`."
    assert log.rows() == [(1, "c")]
    with log.project() as project:
        (anew,) = project.resync("orders", replace=True).streams
    assert (anew.outcome, anew.verified, log.rows()) == ("loaded", True, [(4, "e")])
    events.add(("D", 11, 4, "e"))
    assert log.loaded().rows_deleted == 1


def test_versions_that_are_gone_before_they_were_read_stop_the_log_and_so_does_a_table_made_again(events):
    log = events.log
    events.add(("I", 1, 1, "a"))
    log.loaded()
    events.add(("I", 2, 2, "b"))
    events.add(("I", 3, 3, "c"))
    if events.kind == "iceberg":
        events.sql(EXPIRED)
    else:
        versions = sorted((events.place / "_delta_log").glob("*.json"))
        versions[-2].unlink()
    assert log.run().error.code == "history_gone"
    if events.kind == "iceberg":
        events.sql(f"DROP TABLE {events.name}")
        events.make()
    else:
        other = events.place.with_name("other")
        events.sql(f"CREATE TABLE delta.`{other}` {COLUMNS} USING delta {FED}")
        shutil.rmtree(events.place)
        shutil.move(other, events.place)
    assert log.run().error.code == "history_gone"
    assert log.rows() == [(1, "a")]


def test_what_cannot_be_taken_stops_the_load(events):
    events.add(("I", 1, 1, "a"), ("X", 2, 2, "hidden"))
    stopped = events.log.run()
    assert (stopped.error.code, stopped.outcome) == ("check_failed", "stopped")
    assert "events, " in stopped.error.message
    assert "hidden" not in stopped.error.message


def test_a_delta_table_without_its_feed_is_refused_with_the_statement_that_helps(log_of, tmp_path):
    events = Events(log_of, "delta", tmp_path)
    events.make(properties="")
    events.add(("I", 1, 1, "a"))
    refused = events.log.run()
    assert (refused.error.code, refused.error.exit_code) == ("config", 2)
    events.sql(refused.error.hint.removeprefix("Let Spark run `").split("`, then")[0])
    assert events.log.loaded().rows_inserted == 1
    events.add(("I", 2, 2, "b"))
    assert events.log.loaded().rows_inserted == 1
