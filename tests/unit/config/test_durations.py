from datetime import timedelta

import pytest

from tidegate.config.durations import duration


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0s", timedelta(0)),
        ("0", timedelta(0)),
        (0, timedelta(0)),
        ("500ms", timedelta(milliseconds=500)),
        ("1.5h", timedelta(minutes=90)),
        ("1h30m", timedelta(minutes=90)),
        ("7d", timedelta(days=7)),
        ("2w", timedelta(days=14)),
        (" 5m ", timedelta(minutes=5)),
        (timedelta(seconds=3), timedelta(seconds=3)),
    ],
)
def test_durations(text, value):
    assert duration(text) == value


@pytest.mark.parametrize(
    "text", ["", "5", 5, "-1s", "1y", "1 h", "h", "1h!", None, True, timedelta(-1), "٣s", "1.2.3s"]
)
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError, match="must be a duration"):
        duration(text)


def test_too_long_is_refused():
    with pytest.raises(ValueError, match="too long"):
        duration("99999999999999w")
