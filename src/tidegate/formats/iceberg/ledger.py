"""Adds few rows to an Iceberg table by PyIceberg: rows that are there already are not written again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tidegate.core.ids import Target
from tidegate.core.loads import KEY, TIME, LoadRow
from tidegate.errors import WriteError
from tidegate.formats.iceberg.catalog import Catalog
from tidegate.formats.shared.load_rows import as_arrow

if TYPE_CHECKING:
    from pyiceberg.table import Table

TRIES = 5
# A commit that lost a race must look again at what is there, not be repeated as it was.
PROPERTIES = {"format-version": "2", "commit.retry.num-retries": "0"}


def add(where: Catalog, target: Target, rows: Sequence[LoadRow]) -> None:
    """Adds the rows that the table does not have yet; see `Ledger`."""
    from pyiceberg.catalog import load_catalog  # noqa: PLC0415 - the import costs more than a check may
    from pyiceberg.exceptions import CommitFailedException  # noqa: PLC0415 - as above

    arrow = as_arrow(rows)
    try:
        with load_catalog(where.name, **where.pyiceberg()) as catalog:
            for attempt in range(1, TRIES + 1):
                table = _table(catalog, target, arrow.schema)
                known = _known(table, rows)
                new = arrow.filter([(row.stream_uid, row.run_id) not in known for row in rows])
                if not new.num_rows:
                    return
                try:
                    table.append(new)
                except CommitFailedException:
                    if attempt == TRIES:
                        raise
                    time.sleep(0.1 * attempt)
                else:
                    return
    except Exception as error:
        raise WriteError(f"table {target} cannot be written: {type(error).__name__}") from error


def _table(catalog: Any, target: Target, columns: Any) -> Table:
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError  # noqa: PLC0415 - as above

    name = (*target.namespace, target.table)
    try:
        found: Table = catalog.load_table(name)
    except (NoSuchTableError, NoSuchNamespaceError):
        catalog.create_namespace_if_not_exists(target.namespace)
        found = catalog.create_table_if_not_exists(name, schema=columns, properties=PROPERTIES)
    return found


def _known(table: Table, rows: Sequence[LoadRow]) -> set[tuple[str, str]]:
    """The keys of the rows that are as new as these; older files are left out by their bounds."""
    since = min(row.loaded_at for row in rows).isoformat()
    found = table.scan(row_filter=f"{TIME} >= '{since}'", selected_fields=(*KEY, TIME)).to_arrow()
    return set(zip(*(found.column(name).to_pylist() for name in KEY), strict=True))
