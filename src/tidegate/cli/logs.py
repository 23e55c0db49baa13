"""Sets up logging to stderr, as text or JSON lines, with secrets masked.

Imports structlog only when something is logged.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from enum import StrEnum
from functools import cached_property
from typing import Any

from tidegate.core.visible import visible, visible_json

OWN = "tidegate"


class LogLevel(StrEnum):
    """How much is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """The format of the log."""

    TEXT = "text"
    JSON = "json"


def set_up(*, level: LogLevel, form: LogFormat, redact: Callable[[str], str]) -> None:
    """Sets up the log; libraries log only errors, or more at level debug."""
    libraries = logging.INFO if level is LogLevel.DEBUG else logging.ERROR
    logging.captureWarnings(capture=True)
    logging.basicConfig(level=libraries, handlers=[_Handler(form, redact, stacks=level is LogLevel.DEBUG)], force=True)
    logging.getLogger(OWN).setLevel(level.upper())


class _Handler(logging.Handler):
    """Writes a record as one line; its `extra` values become fields."""

    def __init__(self, form: LogFormat, redact: Callable[[str], str], *, stacks: bool) -> None:
        super().__init__()
        self._stacks = stacks
        self._form = form
        self._redact = redact

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == "root" and record.exc_info and not self._stacks:
            return  # py4j tells an interruption this way, before the command itself does
        known = vars(logging.makeLogRecord({}))
        values = {key: value for key, value in vars(record).items() if key not in known and key != "message"}
        about = {"event": record.getMessage(), "level": record.levelname.lower(), "logger": record.name}
        if record.exc_info and self._stacks:
            about["exception"] = logging.Formatter().formatException(record.exc_info)
        line = self._rendered({**about, **values})
        sys.stderr.write(line + "\n")
        sys.stderr.flush()

    def _rendered(self, values: dict[str, Any]) -> str:
        clean = {key: self._redact(item) if isinstance(item, str) else item for key, item in values.items()}
        as_json = self._form is LogFormat.JSON
        if not as_json:  # before the renderer adds colours of its own
            clean = {key: visible(item) if isinstance(item, str) else item for key, item in clean.items()}
        for processor in self._processors:
            clean = processor(None, "", clean)
        return visible_json(str(clean)) if as_json else str(clean)

    @cached_property
    def _processors(self) -> tuple[Callable[[Any, str, Any], Any], ...]:
        import structlog  # noqa: PLC0415 - it takes longer to import than most commands take

        stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
        if self._form is LogFormat.JSON:
            return stamp, structlog.processors.JSONRenderer(ensure_ascii=False, default=str)
        return stamp, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
