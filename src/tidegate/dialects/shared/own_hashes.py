"""What a database hashes for comparison with its own earlier answers alone: also values that have no canonical text."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.core.slices import Everything
from tidegate.dialects.shared.buckets import field, row_of
from tidegate.dialects.shared.statements import DIGEST, Statements


def of_columns(statements: Statements, names: Sequence[str], cut: str | None = None) -> str | None:
    """Rows, and the sum of the engine's own hash over these columns; None where it has none."""
    own = dict(zip(statements.schema.names, statements.own, strict=True))
    dialect = statements.dialect
    hashed = dialect.quick([own[statements.column(name).name] for name in names])
    if hashed is None:
        return None
    digest, where = dialect.quote(DIGEST), f" WHERE {cut}" if cut else ""
    inner = f"SELECT {hashed} AS {digest} FROM {statements.relation.sql}{where} {dialect.fence}"
    total = dialect.as_text(f"coalesce(sum({digest}), 0)")
    return f"SELECT count(*), {total} FROM {dialect.named(inner, 'hashed')}"


def of_rows(statements: Statements, cut: str | None = None) -> str | None:
    """One row, `Fingerprint.of_sums`, of all rows over all columns; None where one of them has no exact text."""
    dialect, fields = statements.dialect, []
    for column in statements.own:
        text = None if column.type.covered else dialect.own_text(dialect.quote(column.name), column)
        if text is None and not column.type.covered:
            return None
        fields.append(field(dialect, column) if text is None else f"coalesce({text}, '~N')")
    digest = dialect.packed(dialect.digest(row_of(dialect, fields)))
    return statements.summed(digest, statements.rows(Everything(), None, cut))
