"""What a table's own metadata tells of its layout and size, for `tidegate show`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tidegate.core.display import Shown

Snippets: TypeAlias = "dict[str, str]"
"""By engine (`duckdb`, `pyiceberg`, `delta-rs`, `polars`, `pandas`, `spark`, `trino`): text to copy and run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts(Shown):
    """The visible version of a table.

    Args:
        format: with its version: `iceberg 2`, `delta`.
        partition_by, sort_by: as a `layout:` writes them; empty for none.
        files: live data files; None if the metadata does not say.
        bytes: the size of the live files, including delete files.
        delete_files: delete files, or deletion vectors, of data files.
    """

    format: str
    partition_by: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    files: int | None = None
    bytes: int | None = None
    delete_files: int | None = None

    def __str__(self) -> str:
        words = [self.format]
        words += [] if self.files is None or self.bytes is None else [f"files {self.files:,}, bytes {self.bytes:,}"]
        words += [f"partitioned by {', '.join(self.partition_by)}"] if self.partition_by else []
        return "; ".join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAddress:
    """Where an engine that is no part of the project finds a table. It holds no secret.

    Args:
        format: `iceberg` or `delta`.
        catalog: the type of the lake's catalog; empty for a format that needs none.
        warehouse: the lake's; None if its catalog decides.
        path: the table's folder, or the newest metadata file of an Iceberg table whose catalog serves nobody else; None
            where the catalog tells it, or there is no such table yet.
        options: of the catalog and the store, without those that hold secrets.
        logins: the names of these.
    """

    format: str
    catalog: str
    warehouse: str | None
    path: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    logins: frozenset[str] = frozenset()
