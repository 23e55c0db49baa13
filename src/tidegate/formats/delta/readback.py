"""Reads columns of a small Delta table with PyArrow, without Spark."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

from tidegate.formats.delta import table
from tidegate.formats.delta.log import Log


def rows(log: Log, names: Sequence[str]) -> Any:
    """These columns of every row of the newest version, as a `pyarrow.Table`.

    Returns:
        None where PyArrow alone cannot tell: rows were deleted beside their files, a column is a partition's or comes
        from another folder.
    """
    import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415 - half a second
    from pyarrow import parquet  # noqa: PLC0415 - as above

    snapshot = log.snapshot()
    physical = {each["name"]: table.physical(each) for each in table.fields(snapshot)}
    elsewhere = any(file.get("deletionVector") or "://" in file["path"] for file in snapshot.files)
    if elsewhere or set(names) & set(snapshot.metadata.get("partitionColumns") or ()) or set(names) - set(physical):
        return None
    parts = []
    for file in snapshot.files:
        data = io.BytesIO(log.store.read(unquote(file["path"])))
        part = parquet.read_table(data, columns=[physical[name] for name in names])
        parts.append(part.select([physical[name] for name in names]).rename_columns(list(names)))
    return pa.concat_tables(parts) if parts else pa.table({name: [] for name in names})
