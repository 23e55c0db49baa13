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
from tidegate.core.yaml_text import scalar
from tidegate.dialects.shared.type_names import parse_type
from tidegate.errors import ConfigError

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


def column_of(name: str, native: tuple[str, bool], override: str | None) -> Column | str:
    """The column, exactly; DuckDB's word for its type where none keeps every value.

    Args:
        native: that word, and whether NULL is allowed.

    Raises:
        ConfigError: another type than text is stated, which says more than DuckDB does nowhere.
    """
    word, nullable = native
    if override is not None and parse_type(name, override) != TEXT:
        raise ConfigError(
            f"columns: column {name!r} has type {word}, which DuckDB already declares exactly; it can be read as text "
            f"alone",
            hint=f"Remove it, or use `source: {{columns: {{{scalar(name, is_key=True)}: text}}}}`.",
            column=name,
        )
    kind = TEXT if override is not None else type_of(word)
    return word if kind is None else Column(name=name, type=kind, nullable=nullable, native=word)


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
