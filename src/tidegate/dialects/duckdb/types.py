"""Maps DuckDB types, as DESCRIBE prints them, to exact types.

A type whose values could change is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tidegate.core.schema import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    JSON,
    REAL,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    Column,
    Type,
    array,
    decimal,
)
from tidegate.errors import ConfigError, SchemaRefused

PLAIN: Mapping[str, Type] = {
    "BIGINT": BIGINT,
    "BLOB": BINARY,
    "BOOLEAN": BOOLEAN,
    "DATE": DATE,
    "DOUBLE": DOUBLE,
    "FLOAT": REAL,
    "HUGEINT": decimal(38, 0),
    "INTEGER": INT,
    "JSON": JSON,
    "SMALLINT": INT,
    "TIME": TIME,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMP WITH TIME ZONE": TIMESTAMPTZ,
    "TIMESTAMP_MS": TIMESTAMP,
    "TIMESTAMP_NS": TIMESTAMP,
    "TIMESTAMP_S": TIMESTAMP,
    "TINYINT": INT,
    "UBIGINT": decimal(20, 0),
    "UHUGEINT": decimal(38, 0),
    "UINTEGER": BIGINT,
    "USMALLINT": INT,
    "UTINYINT": INT,
    "UUID": UUID,
    "VARCHAR": TEXT,
}
IN_ARRAYS = frozenset({"BIGINT", "BOOLEAN", "INTEGER", "SMALLINT", "TINYINT", "UUID", "VARCHAR"})
DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
LIST = re.compile(r"(\w+)\[\d*\]")


def column_of(name: str, native: str, *, nullable: bool, override: str | None) -> Column:
    """The column, exactly.

    Raises:
        SchemaRefused: no type keeps every value; the hint says how to cast it.
        ConfigError: a type is stated, which says more than DuckDB does nowhere.
    """
    if override is not None:
        raise ConfigError(
            f"columns: column {name!r} has type {native}, which DuckDB already declares exactly",
            hint=f'Remove it, or cast it with `source: {{query: "SELECT CAST({name} AS …) AS {name} FROM …"}}`.',
            column=name,
        )
    kind = type_of(native)
    if kind is None:
        raise SchemaRefused(
            f"column {name!r} has type {native}, which no column type of a lake table can store exactly",
            hint=f'Leave it out or cast it with `source: {{query: "SELECT …, {name}::VARCHAR AS {name} FROM …"}}`.',
            column=name,
        )
    return Column(name=name, type=kind, nullable=nullable, native=native)


def type_of(native: str) -> Type | None:
    """The type that DuckDB's word stands for; None for one that cannot be kept."""
    found = DECIMAL.fullmatch(native)
    if found:
        return decimal(int(found[1]), int(found[2]))
    if native.startswith("ENUM(") and native.endswith(")"):
        return TEXT
    found = LIST.fullmatch(native)
    if found:
        return array(PLAIN[found[1]]) if found[1] in IN_ARRAYS else None
    return PLAIN.get(native)
