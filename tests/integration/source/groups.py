"""The groups of a column `x`, in plain Python, beside those that the database and the probe make."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from tidegate.core.fingerprint import Fingerprint
from tidegate.core.grouping import Grouping, Period, Periods, Prefixes, Steps
from tidegate.sources.database.probe import DatabaseProbe

NUMBERS = [-1001, -1000, -1, 0, 5, 999, 1000, None]
DAYS = ["0001-01-01", "1969-12-31", "2024-02-29", "2025-01-01", "9999-12-31", None]


def check_groups(probe: DatabaseProbe, grouping: Grouping, values: Sequence[object], *, moments: bool) -> None:
    """Each partition, and its fingerprint, is that of the values.

    Args:
        moments: the days are midnights of a type with a time.
    """
    column = probe.schema().find("x")
    assert column is not None
    model: defaultdict[object, list[str]] = defaultdict(list)
    for value in values:
        bucket, text = in_model(grouping, value, moments=moments)
        model[grouping.part(grouping.coarse(bucket), column)].append(text)
    found = probe.partitions(grouping)
    assert found == {part: Fingerprint.of_texts(texts) for part, texts in model.items()}
    for part, fingerprint in found.items():
        assert probe.fingerprint(part) == fingerprint


def in_model(grouping: Grouping, value: object, *, moments: bool) -> tuple[str | None, str]:
    """Bucket and row text."""
    if value is None:
        return None, "~N"
    if isinstance(grouping, Steps):
        number = int(str(value))
        return str(number // grouping.width * grouping.width), str(number)
    text = f"{value} 00:00:00.000000" if moments else str(value)
    if isinstance(grouping, Periods):
        length = {Period.DAY: 10, Period.WEEK: 10, Period.MONTH: 7, Period.QUARTER: 7}[grouping.period]
        return text[:length], text
    assert isinstance(grouping, Prefixes)
    return text[: grouping.length], text.replace("~", "~0").replace("|", "~1")
