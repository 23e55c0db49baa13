"""The forms in which a value can be sent from a database to Spark without losing precision."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class WireFormat(StrEnum):
    """The shape in which a column's values leave the database."""

    NATIVE = "native"
    """As the driver gives them: only where Spark's JDBC source keeps every bit."""

    TEXT = "text"
    """As canonical text (`core/fingerprint`)."""

    BYTES = "bytes"
    """A text as its bytes, from a database that does not look whether they are UTF-8."""

    MICROS = "micros"
    """A timestamp as whole microseconds since 1970, UTC where it has a zone."""

    DAYS = "days"
    """A date as whole days since 1970."""

    JSON = "json"
    """An array as a JSON text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnRead:
    """How one column is read: the exact expression, and the shape of its result."""

    sql: str
    wire_format: WireFormat
