"""Validates the Spark SQL of a check: one condition on the columns of a single row.

A text can never end one statement and start another.
"""

from __future__ import annotations

import functools

from tidegate.errors import ConfigError


@functools.cache
def columns_of(sql: str) -> tuple[str, ...]:
    """The columns that a condition names, sorted.

    Raises:
        ConfigError: not one expression, or one that uses more than one row.

    Example:
        >>> columns_of("amount >= 0 OR `kind of` = 'refund'")
        ('amount', 'kind of')
    """
    import sqlglot  # noqa: PLC0415 - most projects state no SQL, and every command reads the project
    from sqlglot import exp  # noqa: PLC0415 - as above
    from sqlglot.errors import SqlglotError  # noqa: PLC0415 - as above

    try:
        parsed = [each for each in sqlglot.parse(f"SELECT ({sql}\n)", dialect="spark") if each is not None]
    except SqlglotError as error:
        raise _refused(sql, "is not a Spark SQL expression") from error
    if len(parsed) != 1 or not isinstance(parsed[0], exp.Select) or len(parsed[0].expressions) != 1:
        raise _refused(sql, "is not one expression")
    whole = parsed[0]
    if any(whole.args.get(part) for part in ("from_", "from", "where", "joins", "group")):
        raise _refused(sql, "uses more than one row")
    if any(query is not whole for query in whole.find_all(exp.Query)):
        raise _refused(sql, "uses more than one row")
    if not isinstance(whole.expressions[0], exp.Paren) or whole.find(exp.Window, exp.AggFunc):
        raise _refused(sql, "uses more than one row")
    return tuple(sorted({column.name for column in whole.find_all(exp.Column)}))


def _refused(sql: str, why: str) -> ConfigError:
    return ConfigError(
        f"{sql!r} {why}",
        hint="Use a condition on columns of one row, such as `amount >= 0`, then run `tidegate check`.",
    )
