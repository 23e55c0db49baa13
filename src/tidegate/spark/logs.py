"""What PySpark and py4j log: neither secrets, nor what an error of ours says already."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


def keep_secrets() -> None:
    """At debug py4j logs every command that it sends to a JVM, the passwords in a session's settings included."""
    log = logging.getLogger("py4j")
    if log.getEffectiveLevel() < logging.INFO:
        log.setLevel(logging.INFO)


def silence_refused_statements() -> None:
    """Keeps PySpark from writing every refused statement to our stderr; the error itself carries it."""
    _logger().disabled = True
    # When a JVM dies py4j tells each of its calls with its stack; the error of the load tells it once.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)


@contextmanager
def refusals_unlogged() -> Iterator[None]:
    """The same for the statements of a block, in a process whose Spark is the caller's."""
    logger = _logger()
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _logger() -> logging.Logger:
    from pyspark.logger import PySparkLogger  # noqa: PLC0415 - Spark is about to be used

    # Of PySpark's own class: it fails to log by any other, should somebody switch the logger on again.
    return PySparkLogger.getLogger("SQLQueryContextLogger")
