"""Decides what the log looks like: text or JSON lines on stderr, without secrets.

Set up once a command has a project; everybody else logs with Python's `logging`. Must never write to stdout, and
loads structlog only when there is something to write.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from functools import cached_property
from typing import Any

from tidegate.cli.shell import LogFormat, LogLevel, Shell

OWN = "tidegate"


def set_up(shell: Shell) -> None:
    """The program's log, at the level and in the format asked for; of libraries only errors, at debug more."""
    level = logging.getLevelNamesMapping()[shell.log_level.upper()]
    if shell.quiet:
        level = max(level, logging.WARNING)
    is_debug = shell.log_level is LogLevel.DEBUG
    logging.captureWarnings(capture=True)
    logging.basicConfig(level=logging.INFO if is_debug else logging.ERROR, handlers=[_Handler(shell)], force=True)
    logging.getLogger(OWN).setLevel(level)


class _Handler(logging.Handler):
    """Writes a record as one line; its `extra` values become fields."""

    def __init__(self, shell: Shell) -> None:
        super().__init__()
        self._shell = shell

    def emit(self, record: logging.LogRecord) -> None:
        known = vars(logging.makeLogRecord({}))
        values = {key: value for key, value in vars(record).items() if key not in known and key != "message"}
        about = {"event": record.getMessage(), "level": record.levelname.lower(), "logger": record.name}
        if record.exc_info:
            about["exception"] = logging.Formatter().formatException(record.exc_info)
        line = self._rendered({**about, **values})
        sys.stderr.write(line + "\n")
        sys.stderr.flush()

    def _rendered(self, values: dict[str, Any]) -> str:
        clean = {key: self._shell.redact(item) if isinstance(item, str) else item for key, item in values.items()}
        for processor in self._processors:
            clean = processor(None, "", clean)
        return str(clean)

    @cached_property
    def _processors(self) -> tuple[Callable[[Any, str, Any], Any], ...]:
        import structlog  # noqa: PLC0415 - it takes longer to import than most commands take

        stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
        if self._shell.log_format is LogFormat.JSON:
            return stamp, structlog.processors.JSONRenderer(ensure_ascii=False, default=str)
        return stamp, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
