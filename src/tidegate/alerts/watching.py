"""Looks at the streams beside `watch`: after each run, and once a minute."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from tidegate.config import Config
from tidegate.core.ports.format import Format
from tidegate.engine.run import utc_now
from tidegate.errors import TidegateError
from tidegate.registry.store import Registry

T = TypeVar("T")

EVERY = 60.0
log = logging.getLogger("tidegate")


@contextmanager
def watching(
    config: Config, lakes: dict[str, Format], registry: Registry, tell: Callable[[T], None]
) -> Iterator[Callable[[T], None]]:
    """A `tell` that also has the streams looked at, in a thread of its own; the same `tell` without channels.

    Nothing that goes wrong with an alert reaches a load: it is logged as a warning.
    """
    if not config.alerts.channels:
        yield tell
        return
    for error in config.alerts.absent.values():
        log.warning("alerts: %s; nothing is sent there", error.message)
    from tidegate.alerts.check import check_alerts  # noqa: PLC0415 - every command imports this module, few send

    ended, asked = threading.Event(), threading.Event()

    def look() -> None:
        while True:
            asked.wait(EVERY)
            asked.clear()
            try:
                for notice, why in check_alerts(config, lakes, registry, utc_now()).undelivered:
                    log.warning("alerts: %r was not delivered to %r: %s", notice.title, notice.channel, why)
            except TidegateError as error:
                log.warning("alerts: %s: %s", error.code, error.message)
            except Exception as error:  # noqa: BLE001 - a load never fails because of an alert
                log.warning("alerts: %s", type(error).__name__)
            if ended.is_set():
                return

    def after_run(result: T) -> None:
        asked.set()
        tell(result)

    thread = threading.Thread(target=look, name="alerts", daemon=True)
    thread.start()
    try:
        yield after_run
    finally:
        ended.set()
        asked.set()
        thread.join(EVERY)
