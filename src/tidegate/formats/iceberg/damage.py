"""Finds the damaged file of an Iceberg table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.formats.shared.damage import damaged
from tidegate.storage import Store

if TYPE_CHECKING:
    from pyiceberg.table import Table


def damage(table: Table, store: Store, said: str) -> str | None:
    """See `TableInspection.damaged`."""
    tasks = list(table.scan().plan_files())
    every = [file for task in tasks for file in (task.file, *task.delete_files)]
    return damaged(table.location(), {file.file_path: file.file_size_in_bytes for file in every}, store, said)
