"""Maps PostgreSQL types, from the catalog, to exact types.

A type whose values could change is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.core import schema as types
from tidegate.core.schema import Column, Kind, Type, array, decimal
from tidegate.core.yaml_text import scalar
from tidegate.dialects.shared.type_names import parse_type
from tidegate.errors import SchemaRefused

PLAIN: Mapping[str, Type] = {
    "bool": types.BOOLEAN,
    "bpchar": types.TEXT,
    "bytea": types.BINARY,
    "cidr": types.TEXT,
    "date": types.DATE,
    "float4": types.REAL,
    "float8": types.DOUBLE,
    "inet": types.TEXT,
    "int2": types.INT,
    "int4": types.INT,
    "int8": types.BIGINT,
    "json": types.JSON,
    "jsonb": types.JSON,
    "macaddr": types.TEXT,
    "macaddr8": types.TEXT,
    "name": types.TEXT,
    "oid": types.BIGINT,
    "text": types.TEXT,
    "time": types.TIME,
    "timestamp": types.TIMESTAMP,
    "timestamptz": types.TIMESTAMPTZ,
    "uuid": types.UUID,
    "varchar": types.TEXT,
}
TEXTS = frozenset({"bpchar", "citext", "name", "text", "varchar"})
MOMENTS, MICROS = frozenset({"time", "timestamp", "timestamptz"}), 6
"""Types that keep digits of a second, and how many unless they are declared with fewer."""
IN_ARRAYS = frozenset({"bool", "int2", "int4", "int8", "text", "uuid", "varchar"})

DESCRIBE = """
WITH RECURSIVE chain AS (
  SELECT oid AS origin, oid, typtype, typbasetype, typtypmod FROM pg_type WHERE oid = ANY('{{{oids}}}'::oid[])
  UNION ALL
  SELECT chain.origin, base.oid, base.typtype, base.typbasetype,
         CASE WHEN chain.typtypmod >= 0 THEN chain.typtypmod ELSE base.typtypmod END
  FROM chain JOIN pg_type AS base ON chain.typtype = 'd' AND base.oid = chain.typbasetype
)
SELECT chain.origin::bigint, chain.typtypmod, kind.oid::bigint, kind.typname, kind.typtype,
       kind.typnamespace = 'pg_catalog'::regnamespace, element.typname, origin.typname
FROM chain JOIN pg_type AS kind ON kind.oid = chain.oid JOIN pg_type AS origin ON origin.oid = chain.origin
LEFT JOIN pg_type AS element ON element.oid = kind.typelem AND kind.typcategory = 'A' AND element.typtype = 'b'
WHERE chain.typtype <> 'd'
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Native:
    """What the catalog says of a type, domains resolved."""

    modifier: int
    oid: int
    name: str
    category: str
    built_in: bool
    element: str | None
    called: str


def column_of(name: str, native: Native, *, nullable: bool, override: str | None) -> Column | str:
    """The column, exactly; PostgreSQL's word for its type where none keeps every value.

    Raises:
        SchemaRefused: a type is stated that would change values.
    """
    kind, label = _type(native), _label(native)
    wanted = parse_type(name, override) if override is not None else None
    if wanted == types.TEXT:
        kind = types.TEXT
    elif wanted is not None:
        if native.name != "numeric" or wanted.kind is not Kind.DECIMAL:
            raise SchemaRefused(
                f"column {name!r} of type {label} cannot be read as {override!r}: any type can be read as text, and "
                f"numeric as decimal",
                hint=f"Read it as text: `source: {{columns: {{{scalar(name, is_key=True)}: text}}}}`.",
                column=name,
            )
        # Without its modifier the column counts as unbounded, so that a value that does not fit is an error.
        fits = native.modifier < 0 or _within(kind, wanted)
        label = f"numeric({wanted.precision},{wanted.scale})" if fits and native.modifier >= 0 else "numeric"
        kind = wanted
    if kind is None:
        return label
    as_text = kind == types.TEXT and (native.category != "b" or native.name not in TEXTS)
    return Column(name=name, type=kind, nullable=nullable, native=label, as_text=as_text)


def _within(inner: Type | None, outer: Type) -> bool:
    if inner is None or inner.kind is not Kind.DECIMAL:
        return False
    return inner.scale <= outer.scale and inner.precision - inner.scale <= outer.precision - outer.scale


def _type(native: Native) -> Type | None:
    if native.category == "e" or native.name == "citext":
        return types.TEXT
    if native.category != "b" or not native.built_in:
        return None
    if native.name == "numeric":
        return _numeric(native.modifier)
    if native.element is not None:
        return array(PLAIN[native.element]) if native.element in IN_ARRAYS and native.name.startswith("_") else None
    return PLAIN.get(native.name)


def _numeric(modifier: int) -> Type:
    """Up to 38 digits a decimal, beyond that and without a precision its exact text."""
    if modifier < 0:
        return types.TEXT
    precision, scale = _digits(modifier)
    # A scale may be negative (whole hundreds) or above the precision (0.00123); both fit another decimal.
    if scale < 0:
        precision, scale = precision - scale, 0
    precision = max(precision, scale)
    return decimal(precision, scale) if precision <= 38 else types.TEXT


def _digits(modifier: int) -> tuple[int, int]:
    """Precision and scale. Source: PostgreSQL, numeric.c, make_numeric_typmod."""
    packed = modifier - 4
    return packed >> 16 & 0xFFFF, ((packed & 0x7FF) ^ 1024) - 1024


def _label(native: Native) -> str:
    if native.name == "numeric" and native.modifier >= 0:
        precision, scale = _digits(native.modifier)
        return f"numeric({precision},{scale})"
    if native.name in MOMENTS and 0 <= native.modifier < MICROS:
        return f"{native.name}({native.modifier})"
    if native.name.startswith("_") and native.category == "b":
        return f"{native.called.removeprefix('_')}[]"
    return native.called if native.category == "e" or native.name not in PLAIN else native.name
