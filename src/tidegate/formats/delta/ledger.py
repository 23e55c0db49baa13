"""Adds few rows to a Delta table by delta-rs: rows that are there already are not written again."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tidegate import extras
from tidegate.core.ids import Target
from tidegate.core.loads import KEY, TIME, LoadRow
from tidegate.errors import EnvironmentMissing, WriteError
from tidegate.formats.shared.load_rows import as_arrow

TRIES = 5


def add(location: str, target: Target, rows: Sequence[LoadRow]) -> None:
    """Adds the rows that the table does not have yet; see `Ledger`."""
    try:
        from deltalake import DeltaTable  # noqa: PLC0415 - an extra
        from deltalake.exceptions import CommitFailedError  # noqa: PLC0415 - as above
    except ImportError as error:
        raise EnvironmentMissing(
            f"table {target} is written by the package deltalake, which is not installed", hint=extras.hint("delta")
        ) from error
    arrow, since = as_arrow(rows), min(row.loaded_at for row in rows)
    same = " AND ".join(f"t.{name} = s.{name}" for name in KEY)
    where = location.replace("s3a://", "s3://", 1)
    try:
        for attempt in range(1, TRIES + 1):
            table = DeltaTable.create(where, schema=arrow.schema, mode="ignore")
            merge = table.merge(
                arrow,
                predicate=f"{same} AND t.{TIME} >= timestamp '{since.isoformat()}'",
                source_alias="s",
                target_alias="t",
            )
            try:
                merge.when_not_matched_insert_all().execute()
            except CommitFailedError:
                if attempt == TRIES:
                    raise
                time.sleep(0.1 * attempt)
            else:
                return
    except Exception as error:
        raise WriteError(f"table {target} cannot be written: {type(error).__name__}") from error
