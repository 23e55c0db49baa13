"""The rows of `loads_table:` as Arrow's, with the columns that both formats write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from tidegate.core.loads import LoadRow

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]


def as_arrow(rows: Sequence[LoadRow]) -> pa.Table:
    """One row a run, columns as `LoadRow` has them; times in UTC."""
    import pyarrow as pa  # noqa: PLC0415 - 0.1 s, and most projects keep no such table

    texts = ("stream", "stream_uid", "lake", "table_name", "run_id")
    counts = ("load", "rows_inserted", "rows_updated", "rows_deleted")
    kinds = {
        **{name: (pa.string(), False) for name in texts},
        "loaded_at": (pa.timestamp("us", tz="UTC"), False),
        "outcome": (pa.string(), False),
        **{name: (pa.int64(), True) for name in counts},
        **{name: (pa.string(), True) for name in ("version_before", "version_after")},
        "verified": (pa.bool_(), True),
        "caught_up": (pa.bool_(), False),
    }
    fields = [pa.field(name, *kinds[name]) for name in LoadRow.__dataclass_fields__]
    return pa.Table.from_pylist([asdict(row) for row in rows], schema=pa.schema(fields))
