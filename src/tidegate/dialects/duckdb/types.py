"""Maps DuckDB types, as DESCRIBE prints them, to exact types.

A type whose values could change is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tidegate.core import schema as types
from tidegate.core.schema import Column, Type, array, decimal
from tidegate.core.yaml_text import scalar
from tidegate.dialects.shared.type_names import parse_type
from tidegate.errors import ConfigError

PLAIN: Mapping[str, Type] = {
    "BIGINT": types.BIGINT,
    "BLOB": types.BINARY,
    "BOOLEAN": types.BOOLEAN,
    "DATE": types.DATE,
    "DOUBLE": types.DOUBLE,
    "FLOAT": types.REAL,
    "HUGEINT": decimal(38, 0),
    "INTEGER": types.INT,
    "JSON": types.JSON,
    "SMALLINT": types.INT,
    "TIME": types.TIME,
    "TIMESTAMP": types.TIMESTAMP,
    "TIMESTAMP WITH TIME ZONE": types.TIMESTAMPTZ,
    "TIMESTAMP_MS": types.TIMESTAMP,
    "TIMESTAMP_NS": types.TIMESTAMP,
    "TIMESTAMP_S": types.TIMESTAMP,
    "TINYINT": types.INT,
    "UBIGINT": decimal(20, 0),
    "UHUGEINT": decimal(38, 0),
    "UINTEGER": types.BIGINT,
    "USMALLINT": types.INT,
    "UTINYINT": types.INT,
    "UUID": types.UUID,
    "VARCHAR": types.TEXT,
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
    if override is not None and parse_type(name, override) != types.TEXT:
        raise ConfigError(
            f"columns: column {name!r} has type {word}, which DuckDB already declares exactly; it can be read as text "
            f"alone",
            hint=f"Remove it, or use `source: {{columns: {{{scalar(name, is_key=True)}: text}}}}`.",
            column=name,
        )
    kind = types.TEXT if override is not None else type_of(word)
    if kind is None:
        return word
    as_text = kind == types.TEXT and word != "VARCHAR"
    return Column(name=name, type=kind, nullable=nullable, native=word, as_text=as_text)


def type_of(native: str) -> Type | None:
    """The type that DuckDB's word stands for; None for one that cannot be kept."""
    found = DECIMAL.fullmatch(native)
    if found:
        return decimal(int(found[1]), int(found[2]))
    if native.startswith("ENUM(") and native.endswith(")"):
        return types.TEXT
    found = LIST.fullmatch(native)
    if found:
        return array(PLAIN[found[1]]) if found[1] in IN_ARRAYS else None
    return PLAIN.get(native)
