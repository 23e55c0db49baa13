"""Hints of commands that are given a URL: whoever runs them may have no project."""

from __future__ import annotations

import pytest

from tidegate.cli.url_errors import of_url
from tidegate.dialects.shared.errors import login_refused
from tidegate.errors import ConfigError, SourceError, SourceUnavailable, TidegateError


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (SourceUnavailable("x"), "Correct the URL, then run `tidegate certify URL` again."),
        (ConfigError("x"), "Correct the URL, then run `tidegate certify URL` again."),
        (ConfigError("x", hint="Use trino://user@host/catalog."), "Use trino://user@host/catalog."),
        (login_refused("c", "h"), "Correct user and password in the URL, then run `tidegate certify URL` again."),
        (
            SourceError("x", hint="Let an administrator run `GRANT A ON b TO c`, then `tidegate doctor`."),
            "Let an administrator run `GRANT A ON b TO c`, then `tidegate certify URL` again.",
        ),
    ],
)
def test_no_hint_names_a_project(error: TidegateError, hint: str) -> None:
    with pytest.raises(type(error), match=error.message) as raised, of_url("tidegate certify URL"):
        raise error
    assert raised.value.hint == hint
