"""Maps Snowflake types to exact types.

A type whose values could change is refused, unless the project states what it is read as.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.core import schema as types
from tidegate.core.schema import Column, Kind, Type, decimal
from tidegate.dialects.shared.type_names import parse_type
from tidegate.errors import SchemaRefused

PLAIN: Mapping[str, Type] = {
    "BINARY": types.BINARY,
    "BOOLEAN": types.BOOLEAN,
    "DATE": types.DATE,
    "REAL": types.DOUBLE,
    "TEXT": types.TEXT,
    "TIME": types.TIME,
    "TIMESTAMP_LTZ": types.TIMESTAMPTZ,
    "TIMESTAMP_NTZ": types.TIMESTAMP,
    "TIMESTAMP_TZ": types.TIMESTAMPTZ,
}
# Documents, of which Snowflake writes floating-point numbers with too few digits.
DOCUMENTS = frozenset({"ARRAY", "OBJECT", "VARIANT"})
WITH_TEXT = DOCUMENTS | {"BOOLEAN", "DATE", "FIXED", "TEXT", "TIME", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "TIMESTAMP_TZ"}
WITH_DIGITS = frozenset({"TIME", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "TIMESTAMP_TZ"})
WORDS = {"FIXED": "NUMBER", "REAL": "FLOAT", "TEXT": "VARCHAR"}
DIGITS = re.compile(r"\((\d+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Native:
    """A column as the driver describes it.

    Args:
        name: of the type, as the driver has it.
        precision: the digits of a number.
        scale: those behind its point, or those of a second.
        nullable: whether NULL is allowed.
    """

    name: str
    precision: int = 0
    scale: int = 0
    nullable: bool = True

    @property
    def word(self) -> str:
        """The type, as people write it."""
        word = WORDS.get(self.name, self.name)
        if self.name == "FIXED":
            return f"{word}({self.precision},{self.scale})"
        return f"{word}({self.scale})" if self.name in WITH_DIGITS else word


def column_of(name: str, native: Native, override: str | None) -> Column | str:
    """The column, exactly or as the project states it; Snowflake's word for its type where neither is so.

    Raises:
        SchemaRefused: a type is stated in which values could change.
    """
    found = decimal(native.precision, native.scale) if native.name == "FIXED" else PLAIN.get(native.name)
    if override is not None:
        stated = parse_type(name, override)
        if stated != found and not _keeps(native, stated):
            raise SchemaRefused(
                f"column {name!r} of type {native.word} cannot be read as {override!r}: {_possible(native)}",
                hint=f'Cast it in the source: `{{query: "SELECT CAST({name} AS …) AS {name} FROM …"}}`.',
                column=name,
            )
        found = stated
    if found is None:
        return native.word
    as_text = found == types.TEXT and native.name != "TEXT"
    return Column(name=name, type=found, nullable=native.nullable, native=native.word, as_text=as_text)


def digits(column: Column) -> int:
    """How many digits of a second the column keeps; as many as there can be where its type does not tell."""
    found = DIGITS.search(column.native or "")
    return int(found[1]) if found else 9


def _keeps(native: Native, stated: Type) -> bool:
    """Whether such a column may be read as a type: every value fits, or one that does not ends the load."""
    if native.name == "FIXED" and native.scale == 0 and stated.kind is Kind.INTEGER:
        return True
    if native.name in DOCUMENTS and stated.kind is Kind.JSON:
        return True
    return native.name in WITH_TEXT and stated.kind is Kind.TEXT


def _possible(native: Native) -> str:
    if native.name == "FIXED":
        return f"it is read exactly, or as {'int, bigint or ' if native.scale == 0 else ''}text"
    if native.name in DOCUMENTS:
        return "it is read as json or text"
    return "it is read exactly, or as text" if native.name in WITH_TEXT else "Snowflake writes no exact text of it"
