"""Shared base of dialects that only generate fingerprint SQL, to be run elsewhere.

Never opens a connection.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.core.grouping import Grouping
from tidegate.core.ids import Connection
from tidegate.core.ports.dialect import Dialect, Relation
from tidegate.core.schema import Column, Schema, Type
from tidegate.core.slices import Everything, Slice
from tidegate.dialects.shared.statements import Statements
from tidegate.errors import ConfigError, InternalError

DIGITS = 38
ONLY = "fingerprint SQL only"
# No pseudo-column places rows here: a character that stands in no condition.
NOWHERE = "\0"


def statements(dialect: Dialect, table: Sequence[str], columns: Sequence[Column]) -> Statements:
    """The statements over a table given by its parts."""
    relation = Relation(sql=".".join(map(dialect.quote, table)), label=".".join(table), parts=tuple(table))
    return Statements(dialect=dialect, relation=relation, schema=Schema(columns=tuple(columns)))


def fingerprint(made: Statements, by: Grouping | None, parts: Sequence[Slice]) -> str:
    """One row of rows and four sums; with `by` one row a partition, its bucket first."""
    if by is None and len(parts) <= 1:
        return made.fingerprint(parts[0] if parts else Everything(), None)
    if by is None:
        raise ConfigError("several parts need a grouping to distinguish them", hint="Give `by=`.")
    return made.grouped(made.bucket(by), parts or (Everything(),))


def not_a_source(connection: Connection, engine: str) -> ConfigError:
    """The error for an attempt to read rows."""
    return ConfigError(
        f"connection {connection.name!r}: {engine} is {ONLY}: no rows are read from it",
        hint="See docs/concepts/fingerprint-sql.md for the SQL that compares it with a table of the lake.",
    )


def unread(column: Column, engine: str) -> InternalError:
    """The error for code that tries to read a column."""
    return InternalError(f"column {column.name!r} cannot be read: {engine} is {ONLY}")


def uncovered(column: Column) -> InternalError:
    """The error for code that needs the canonical text of a type without one."""
    return InternalError(f"column {column.name!r} of type {column.type} has no canonical text")


def no_literal(kind: Type) -> InternalError:
    """The error for code that needs a literal of a type without literals."""
    return InternalError(f"no literal for a column of type {kind}")


def doubled(text: str, mark: str) -> str:
    """A text between marks, those inside written twice."""
    return f"{mark}{text.replace(mark, mark * 2)}{mark}"


def mask(scale: int) -> str:
    """The format of a decimal of 38 digits: no blanks, a digit before the point, all digits behind it.

    Example:
        >>> mask(2)
        'FM999999999999999999999999999999999990.00'
    """
    return f"FM{'9' * max(0, DIGITS - scale - 1)}0{'.' + '0' * scale if scale else ''}"
