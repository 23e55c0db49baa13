"""Decides what the log looks like: text or JSON lines on stderr, without secrets.

Called once a command has a project. Must never write to stdout.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog
from structlog.typing import EventDict, WrappedLogger

from tidegate.cli.shell import LogFormat, LogLevel, Shell


def set_up(shell: Shell) -> None:
    """The program's log and what libraries tell through `logging`, at the level and in the format asked for."""
    level = getattr(logging, shell.log_level.upper())
    if shell.quiet and shell.log_level is LogLevel.INFO:
        level = logging.WARNING
    is_text = shell.log_format is LogFormat.TEXT
    last: Any = (
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)
        if is_text
        else structlog.processors.JSONRenderer(ensure_ascii=False)
    )

    def clean(_logger: WrappedLogger, _name: str, values: EventDict) -> EventDict:
        return {key: shell.redact(item) if isinstance(item, str) else item for key, item in values.items()}

    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            clean,
            last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=False,
    )
    # Below debug, what libraries remark is noise: what matters of it becomes an error of ours.
    logging.captureWarnings(capture=True)
    logging.basicConfig(level=level if level == logging.DEBUG else logging.ERROR, handlers=[_Forward()], force=True)


class _Forward(logging.Handler):
    """Hands on what libraries log, so that one format and one filter hold for all."""

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        structlog.get_logger("library").log(record.levelno, text, logger=record.name)
