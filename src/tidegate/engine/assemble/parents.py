"""Says which rows of a table are present: not marked as deleted, and not a version that has ended.

Knows only tables that a stream of the project loads.
"""

from __future__ import annotations

import fnmatch
import re

from tidegate.config import Config, StreamConfig, build
from tidegate.core.ids import Target
from tidegate.core.policies.deletes import DELETED_AT
from tidegate.core.ports.writer import Writer


def present(config: Config, target: Target) -> tuple[str, ...]:
    """The conditions of the rows that are present, as Spark SQL; none if every row is.

    Raises:
        ConfigError: the options of the stream's writer are wrong.
    """
    entry = _loading(config, target)
    if entry is None:
        return ()
    writer: Writer = build("writers", entry.write)
    marked = (f"{DELETED_AT} IS NULL",) if entry.deletes.soft else ()
    return marked if writer.versions is None else (*marked, writer.current)


def _loading(config: Config, target: Target) -> StreamConfig | None:
    """The stream that loads a table: one that names it, else a pattern that may stand for it."""
    parts = (target.lake, *target.namespace, target.table)
    fits = (entry for entry in config.streams if entry.is_pattern and _fits(entry.target, parts))
    return next((entry for entry in config.streams if entry.target == parts), next(fits, None))


def _fits(stated: tuple[str, ...], parts: tuple[str, ...]) -> bool:
    if len(stated) != len(parts):
        return False
    wild = (re.sub(r"\{(table|schema)\}", "*", one) for one in stated)
    return all(fnmatch.fnmatchcase(part, one) for part, one in zip(parts, wild, strict=True))
