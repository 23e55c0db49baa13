"""Tracks reads of a Delta table: where the next one starts, and what happens to unconfirmed ones.

Rows count as loaded only once the caller confirms them, or the target shows their load.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidegate.core.position import Position
from tidegate.loaders._records import Record, Records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Reads:
    """The reads of one source under one name."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._pending: Record | None = None

    def read(self, rows_since: Callable[[Record | None], tuple[DataFrame, Record]]) -> DataFrame:
        """The rows since the last read that was confirmed, noted as pending; what was pending before becomes stale."""
        rows, record = rows_since(self._settle())
        self._records.add(record)
        self._pending = None if record.processed else record
        return rows

    def confirm(self) -> None:
        """The rows of the last `read` have arrived."""
        if self._pending is not None:
            self._records.confirm(self._pending.load_id)
            self._pending = None

    def landed(self, since: Position | None) -> Record | None:
        """The last load, as the target tells it; it is noted now if a crash came before that."""
        self._settle()
        if since is None or not since.load_id:
            return None
        start, end = int(since.state["start"]), int(since.state["version"])
        time_read = since.loaded_through if since.state.get("column") else None
        last = Record(load_id=since.load_id, start=start, end=end, last=time_read, processed=True)
        if all(record.load_id != last.load_id for record in self._records.all()):
            self._records.add(last)
        return last

    def note(self, record: Record) -> None:
        """One more read, whose rows have arrived."""
        self._records.add(record)

    def _settle(self) -> Record | None:
        """Ends what earlier reads left pending, which makes it stale; the last one that was confirmed."""
        found = self._records.all()
        if any(not record.processed and not record.stale for record in found):
            self._records.expire()
        return next((record for record in reversed(found) if record.processed), None)
