"""Decides how a name and a value are written in Spark SQL: always quoted, always typed.

Called by frames, formats and writers. Must never let a name or a value become syntax.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.core.ids import Target
from tidegate.core.schema import Kind, Type
from tidegate.errors import InternalError

LITERAL_KINDS = frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.TEXT, Kind.UUID})


def quote(name: str) -> str:
    """One identifier, whatever it holds.

    Example:
        >>> quote("a`b.c")
        '`a``b.c`'
    """
    return "`" + name.replace("`", "``") + "`"


def names(columns: Sequence[str], prefix: str = "") -> str:
    """Quoted columns, joined by commas; each after `prefix` and a dot if one is given."""
    return ", ".join(f"{prefix}.{quote(name)}" if prefix else quote(name) for name in columns)


def table(target: Target, branch: str | None = None) -> str:
    """A table, or the writable name of a branch of it."""
    parts = [*target.parts, f"branch_{branch}"] if branch else list(target.parts)
    return ".".join(quote(part) for part in parts)


def namespace(target: Target, depth: int | None = None) -> str:
    """Lake and namespace, or its first `depth` parts."""
    return ".".join(quote(part) for part in (target.lake, *target.namespace[:depth]))


def string(text: str) -> str:
    """A string literal.

    Example:
        >>> string("it's")
        "'it\\\\'s'"
    """
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return f"'{escaped}'"


def literal(text: str, kind: Type) -> str:
    """The value of a canonical text (`core/fingerprint`) as a literal that the optimizer folds.

    Raises:
        InternalError: a type that has no order.

    Example:
        >>> from tidegate.core.schema import BIGINT, DATE
        >>> literal("7", BIGINT), literal("2013-12-31", DATE)
        ("CAST('7' AS bigint)", "DATE '2013-12-31'")
    """
    match kind.stored.kind:
        case Kind.INTEGER | Kind.DECIMAL:
            return f"CAST({string(text)} AS {kind.spark})"
        case Kind.DATE:
            return f"DATE {string(text)}"
        case Kind.TIMESTAMP:
            return f"TIMESTAMP_NTZ {string(text)}"
        case Kind.TIMESTAMPTZ:
            return f"TIMESTAMP {string(text + '+00:00')}"
        case Kind.TEXT:
            return string(text)
        case _:
            raise InternalError(f"no literal for a column of type {kind}")


def text(column: str, kind: Type) -> str:
    """The canonical text of a column (or expression) that `literal` reads back.

    Raises:
        InternalError: a type that has no order.
    """
    match kind.stored.kind:
        case Kind.INTEGER | Kind.DECIMAL:
            return f"CAST({column} AS string)"
        case Kind.DATE:
            return f"date_format({column}, 'yyyy-MM-dd')"
        case Kind.TIMESTAMP:
            return f"date_format({column}, 'yyyy-MM-dd HH:mm:ss.SSSSSS')"
        case Kind.TIMESTAMPTZ:
            # Independent of the session's time zone, which a borrowed session may have set to anything.
            since = "TIMESTAMP_NTZ '1970-01-01 00:00:00'"
            return (
                f"date_format(timestampadd(MICROSECOND, unix_micros({column}), {since}), 'yyyy-MM-dd HH:mm:ss.SSSSSS')"
            )
        case Kind.TEXT:
            return column
        case _:
            raise InternalError(f"no canonical text here for a column of type {kind}")
