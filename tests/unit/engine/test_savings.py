"""What runs read, against full reloads."""

from datetime import UTC, datetime, timedelta

from support.dashboard import project, seeded
from support.registry_rows import name
from tidegate.engine.savings import StreamSavings, savings


def test_what_runs_read_is_added_up_and_a_reload_is_an_estimate(tmp_path):
    service = seeded(project(tmp_path, 1), runs_each=10, live=False)
    try:
        since = datetime.now(UTC) - timedelta(days=3)
        runs = service.registry.history(service.registry.status()[0].uid, 100)
        read = sum(run.details["rows_read"] for run in runs)
        (found,) = savings(service.registry, service.registry.status(), {name(0): 50_000}, since).streams
        assert (found.runs, found.rows_read, found.bytes_read) == (len(runs), read, read * 90)
        assert found.rows_full == 50_000 * len(runs)
        assert found.rows_saved == found.rows_full - read
        assert found.bytes_full == 90 * found.rows_full
        most = max(runs, key=lambda run: run.details["rows_read"])
        pace = most.details["seconds"]["total"] / most.details["rows_read"]
        assert abs(found.seconds_full - pace * found.rows_full) < 1
        (later,) = savings(service.registry, service.registry.status(), {}, datetime.now(UTC)).streams
        assert (later.runs, later.rows_full, later.seconds_full) == (0, None, None)
    finally:
        service.close()


def test_nothing_is_estimated_of_a_table_that_nobody_knows():
    assert StreamSavings(stream="a", runs=3, rows_read=10, bytes_read=None, seconds=1.0).bytes_full is None
    found = StreamSavings(stream="a", runs=3, rows_read=10, bytes_read=90, seconds=1.0)
    assert (found.rows_full, found.rows_saved, found.bytes_full) == (None, None, None)
