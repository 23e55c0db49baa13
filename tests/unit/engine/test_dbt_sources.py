"""The freshness of sources of dbt, by schedule."""

from __future__ import annotations

from datetime import timedelta

import pytest
import yaml
from jinja2 import Environment

from tidegate.core.policies.schedule import Schedule
from tidegate.engine.export.dbt import CALL, freshness, literal


@pytest.mark.parametrize(
    ("schedule", "warn", "error"),
    [
        (Schedule(every=timedelta(minutes=10)), 35, 45),
        (Schedule(every=timedelta(seconds=90)), 18, 20),
        (Schedule(cron="0 * * * *"), 135, 195),
        # From Friday to Monday nothing is late.
        (Schedule(cron="0 6 * * 1-5"), 2 * 3 * 24 * 60 + 15, 3 * 3 * 24 * 60 + 15),
        (Schedule(cron="0 0 1 * *"), 2 * 31 * 24 * 60 + 15, 3 * 31 * 24 * 60 + 15),
    ],
)
def test_late_after_a_missed_turn_and_an_error_after_two(schedule, warn, error):
    found = freshness(schedule, timedelta(minutes=15))
    assert found == {
        "warn_after": {"count": warn, "period": "minute"},
        "error_after": {"count": error, "period": "minute"},
    }


@pytest.mark.parametrize(
    "text",
    [
        "{% endraw %}{{ env_var('SECRET') }}{% raw %}",
        "{{ env_var('SECRET') }}",
        "it's {% raw %} a \\ back\\slash {# and #} a {{{ brace",
        "two\nlines of {{ x }}, ends }} and \u00e9 \U0001f40d",
        "env_var('SECRET')",
        " ref('orders') ",
        "plain, with { braces } and 'quotes'",
    ],
)
def test_no_text_of_a_database_is_a_template_of_dbt(text):
    """Rendered as dbt does it: what looks like one of its functions is one where a data test gets it."""
    written = yaml.safe_load(yaml.safe_dump(literal({"columns": [{"description": text}]}), allow_unicode=True))
    (found,) = written["columns"]
    (template,) = found.values()
    if CALL.match(template):
        template = f"{{{{ {template} }}}}"
    called = []
    known = dict.fromkeys(("env_var", "ref"), lambda name: called.append(name) or "")
    assert Environment(keep_trailing_newline=True, autoescape=False).from_string(template).render(known) == text
    assert not called
