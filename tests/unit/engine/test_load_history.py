"""What strategies learn from earlier loads and comparisons."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from tidegate.engine import load_history

EARLIER, LATER = datetime(2025, 1, 1, tzinfo=UTC), datetime(2025, 1, 2, tzinfo=UTC)
WHOLE = {"equal": True, "level": "checksum", "columns_not_covered": []}


@pytest.mark.parametrize(
    ("facts", "at"),
    [
        (WHOLE, LATER),
        ({**WHOLE, "level": "rows"}, LATER),
        ({**WHOLE, "equal": False}, EARLIER),
        ({**WHOLE, "level": "counts"}, EARLIER),
        ({**WHOLE, "columns_not_covered": ["price"]}, EARLIER),
        (None, EARLIER),
    ],
)
def test_a_table_is_proven_by_the_last_comparison_of_every_column(facts, at):
    tasks = [SimpleNamespace(start_ts=when, result_payload=found) for when, found in ((LATER, facts), (EARLIER, WHOLE))]
    registry = SimpleNamespace(tasks=lambda *_, **__: tasks, history=lambda *_: ())
    assert load_history.of(registry, "uid").proven_at == at
