"""Errors of commands that are given a URL: their hints name neither a project file nor a command that reads one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.errors import TidegateError

OF_PROJECTS = ("tidegate doctor", "tidegate.yaml")


@contextmanager
def of_url(command: str) -> Iterator[None]:
    """Gives an error inside a hint that helps whoever has no project yet.

    Args:
        command: what is run again, such as `tidegate init URL`.
    """
    again = f"`{command}` again"
    try:
        yield
    except TidegateError as error:
        if not any(word in error.hint for word in OF_PROJECTS):
            raise
        hint = error.hint.replace("`tidegate doctor`", again).replace("under `connections:`", "in the URL")
        if error.hint == error.default_hint or any(word in hint for word in OF_PROJECTS):
            hint = f"Correct the URL, then run {again}."
        raise type(error)(error.message, hint=hint, **error.context) from error
