"""What metrics say of a table's upkeep was measured: bytes, files, and the time of a query before and after."""

import pytest

from tidegate.telemetry.metrics import Metrics

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def told(project, name):
    lines = Metrics(config=project.config, lakes=project.lakes, tables=True).render().decode().splitlines()
    (only,) = [line.rpartition(" ")[2] for line in lines if line.startswith(f"{name}{{")]
    return float(only)


def test_compaction_and_queries_are_measured(loads):
    loads.configure(maintenance={"measure_query": True})
    for number in range(3):
        loads.load(number, 10 + number)
    with loads.project() as project:
        rows, files = told(project, "tidegate_table_rows"), told(project, "tidegate_table_files")
        assert told(project, "tidegate_changed_records_percent") == pytest.approx(100 * 2 / 4)
    assert (rows, files > 1) == (6, True)
    done = loads.maintain(force=True)
    (table,) = [each for each in done.tables if each.query is not None]
    assert table.query.before > 0 < table.query.after
    with loads.project() as project:
        assert told(project, "tidegate_table_rows") == 6
        assert told(project, "tidegate_table_files") < files
        saved = sum(each.saved.bytes for each in done.tables if each.saved)
        assert told(project, "tidegate_compaction_savings_bytes") == saved
        improved = 100 * (table.query.before - table.query.after) / table.query.before
        assert told(project, "tidegate_query_performance_improvement_percent") == pytest.approx(improved)

    # A query of the project's own.
    for number in range(3):
        loads.load(number)
    loads.configure(maintenance={"measure_query": "SELECT count(*) AS n FROM {table} WHERE id > 2"})
    (table,) = [each for each in loads.maintain(force=True).tables if each.query is not None]
    assert (table.query.before > 0 < table.query.after, table.query.engine) == (True, "spark")
    loads.load(4)
    loads.configure(maintenance={"measure_query": "SELECT nothing FROM {table}"})
    with loads.project() as project:
        (stopped,) = project.maintain("orders", force=True).streams
    assert (stopped.error.code, "UNRESOLVED_COLUMN" in stopped.error.message) == ("config", True)
    assert loads.rows() == loads.orders
