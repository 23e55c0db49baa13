"""What strategies learn from earlier loads and comparisons."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from tidegate.engine import load_history

EARLIER, LATER = datetime(2025, 1, 1, tzinfo=UTC), datetime(2025, 1, 2, tzinfo=UTC)
FOUND = {"equal": True, "level": "checksum", "columns_not_covered": []}
WHOLE = {**FOUND, "load_id": "shown", "read_at": EARLIER.isoformat()}


@pytest.mark.parametrize(
    ("facts", "at"),
    [
        ({}, LATER),
        ({"level": "rows"}, LATER),
        ({"equal": False}, EARLIER),
        ({"level": "counts"}, EARLIER),
        ({"columns_not_covered": ["price"]}, EARLIER),
        ({"load_id": "rolled back"}, EARLIER),
        (None, EARLIER),
    ],
)
def test_a_table_is_proven_by_the_last_comparison_of_every_column_of_a_version_that_it_descends_from(facts, at):
    """At the time of the source, whatever the clock of the runner said."""
    newest = None if facts is None else {**WHOLE, "read_at": LATER.isoformat(), **facts}
    tasks = [SimpleNamespace(start_ts=EARLIER, result_payload=found) for found in (newest, WHOLE)]
    registry = SimpleNamespace(
        tasks=lambda *_, **__: tasks, history=lambda *_: (), descends=lambda _, load_id: load_id == "shown"
    )
    assert load_history.of(registry, "uid").proven_at == at


def test_a_comparison_that_does_not_say_what_it_compared_proves_nothing():
    tasks = [SimpleNamespace(result_payload=FOUND)]
    registry = SimpleNamespace(tasks=lambda *_, **__: tasks, history=lambda *_: ())
    assert load_history.of(registry, "uid").proven_at is None
