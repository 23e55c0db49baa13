"""The logs that a database keeps of its own tables, by the key of a source that names one.

Each has a folder, with options that are checked when a project is read, and a log that is opened beside its table.
Drivers take long to import, so each is imported where it is named.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from tidegate.core.ports.source import Probe
from tidegate.sources.change_log.log import OpenLog
from tidegate.sources.change_log.stated import Stated


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnLog:
    """One kind of them.

    Args:
        key: of the source.
        label: for people, behind an article.
        options: what the project says, checked. Raises ConfigError.
        opened: the log, beside the table that it is of.
    """

    key: str
    label: str
    flavour: str
    options: Callable[[Stated], Any]
    opened: Callable[[Any, Probe], AbstractContextManager[OpenLog]]


def _slot_options(stated: Stated) -> Any:
    from tidegate.sources.change_log.slot import slot  # noqa: PLC0415 - its driver takes 0.2 s

    return slot.SlotOptions(
        connection=stated.connection,
        slot=stated.name,
        table=stated.table,
        publication=stated.publication or stated.name,
        key=stated.stream_key,
        folder=stated.folder,
        selection=stated.selection,
    )


def _slot_opened(options: Any, table: Probe) -> AbstractContextManager[OpenLog]:
    from tidegate.sources.change_log.slot import log  # noqa: PLC0415 - as above

    return log.opened(options, table)


def _capture_options(stated: Stated) -> Any:
    from tidegate.sources.change_log.capture import capture  # noqa: PLC0415 - an extra

    return capture.CaptureOptions.of(stated)


def _capture_opened(options: Any, table: Probe) -> AbstractContextManager[OpenLog]:
    from tidegate.sources.change_log.capture import log  # noqa: PLC0415 - as above

    return log.opened(options, table)


def _tracking_options(stated: Stated) -> Any:
    from tidegate.sources.change_log.tracking import log  # noqa: PLC0415 - an extra

    return log.TrackingOptions.of(stated)


def _tracking_opened(options: Any, table: Probe) -> AbstractContextManager[OpenLog]:
    from tidegate.sources.change_log.tracking import log  # noqa: PLC0415 - as above

    return log.opened(options, table)


SLOT = OwnLog(key="slot", label="a replication slot", flavour="slot", options=_slot_options, opened=_slot_opened)
CAPTURE = OwnLog(
    key="capture_instance",
    label="a capture instance",
    flavour="sqlserver capture instance",
    options=_capture_options,
    opened=_capture_opened,
)
TRACKING = OwnLog(
    key="change_tracking",
    label="change tracking",
    flavour="sqlserver change tracking",
    options=_tracking_options,
    opened=_tracking_opened,
)
OWN_LOGS = (SLOT, CAPTURE, TRACKING)
